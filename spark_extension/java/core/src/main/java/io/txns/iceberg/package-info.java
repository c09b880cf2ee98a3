/**
 * The protocol's face: what programs call ({@code TxnHandle}, {@code TxnCatalog}) stands above the
 * rooms, the values that every room may use (errors, options, isolation levels, the clock) below
 * them.
 */
package io.txns.iceberg;
