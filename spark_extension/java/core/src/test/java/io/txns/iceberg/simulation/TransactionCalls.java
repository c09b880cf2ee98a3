package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.catalog.Transaction;
import java.util.Map;
import java.util.function.BiConsumer;

/** The calls that begin transactions and end them. */
record TransactionCalls(Session session) {
  void into(Map<String, Session.Call> calls) {
    calls.put("begin", this::begin);
    calls.put("commit", this::commit);
    calls.put("give_up", this::giveUp);
    calls.put("rollback", args -> run(args, (txn, none) -> txn.rollback()));
    calls.put("savepoint", args -> run(args, Transaction::savepoint));
    calls.put("rollback_to", args -> run(args, Transaction::rollbackTo));
    calls.put("release", args -> run(args, Transaction::release));
    calls.put("state", args -> Json.object().textNode(session.transaction(args).state().name()));
  }

  private JsonNode run(JsonNode args, BiConsumer<Transaction, String> does) {
    does.accept(session.transaction(args), Json.text(args, "name"));
    return Json.none();
  }

  private JsonNode giveUp(JsonNode args) {
    session.handle().giveUp(session.transaction(args));
    return Json.none();
  }

  private JsonNode begin(JsonNode args) {
    Transaction lost = args.path("after").isInt() ? session.lost(args) : null;
    Transaction transaction =
        session.handle().begin(options(args), lost, args.path("took_ms").asLong());
    String comment = Json.text(args, "comment");
    if (comment != null) {
      transaction.comment(comment);
    }
    ObjectNode begun = Json.object();
    begun.put("txn", session.number(transaction));
    begun.put("id", transaction.id());
    begun.put("read_ts", transaction.readTs());
    begun.set(
        "committed", transaction.committed().<JsonNode>map(this::described).orElse(Json.none()));
    return begun;
  }

  private static BeginOptions options(JsonNode args) {
    BeginOptions options = BeginOptions.defaults().withReadOnly(args.path("read_only").asBoolean());
    String id = Json.text(args, "id");
    String isolation = Json.text(args, "isolation");
    String asOf = Json.text(args, "as_of");
    options = id == null ? options : options.withId(id);
    options = isolation == null ? options : options.withIsolation(Isolation.parse(isolation));
    return asOf == null ? options : options.withAsOf(Long.parseLong(asOf));
  }

  private JsonNode commit(JsonNode args) {
    return described(session.transaction(args).commit());
  }

  /** Nothing is written for a transaction that has only read. */
  private JsonNode described(Committed committed) {
    ObjectNode described = Json.object();
    return committed.tables().isEmpty()
        ? described.putNull("commit_ts")
        : described.put("commit_ts", committed.commitTs());
  }
}
