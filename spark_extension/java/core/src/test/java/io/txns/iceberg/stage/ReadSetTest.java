package io.txns.iceberg.stage;

import static org.apache.iceberg.expressions.Expressions.alwaysTrue;
import static org.apache.iceberg.expressions.Expressions.equal;
import static org.apache.iceberg.expressions.Expressions.in;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Days;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.stage.ReadSet.RowFilter;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.junit.jupiter.api.Test;

/** By which rows a table was read: all of them, for as long as nobody says which. */
class ReadSetTest {
  private static final TableIdentifier A = TableIdentifier.of("shop", "a");
  private static final TableIdentifier Z = TableIdentifier.of("shop", "z");
  private static final Change CHANGE = new Change(A, "u", Operation.APPEND, 1L, 2L, 1, 0);

  private final ReadSet reads = new ReadSet();

  private static RowFilter filter(Expression expression) {
    return new RowFilter(expression, true, 0);
  }

  private List<RowFilter> read() {
    return reads.filtersOf(CHANGE);
  }

  @Test
  void whatIsNotSaidIsEverything() {
    assertThat(read()).isEmpty();
    Object relation = new Object();
    Object another = new Object();
    reads.unsaid(A, "u", relation);
    reads.unsaid(A, "u", another);
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
    reads.filter(A, "u", filter(equal("id", 1)));
    reads.said(A, relation);
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
    reads.said(A, another);
    assertThat(read()).extracting(RowFilter::expression).doesNotContain(alwaysTrue()).hasSize(1);
    reads.unsaid(A, "u", relation); // the same object is scanned by a later statement
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
  }

  @Test
  void allRowsAreAllRows() {
    reads.filter(A, "u", filter(equal("id", 1)));
    reads.filter(A, "u", filter(alwaysTrue()));
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
  }

  @Test
  void aTableIsReadUnderEachOfItsNames() {
    reads.filter(Z, "u", filter(equal("id", 1)));
    reads.filter(A, "u", filter(equal("id", 2)));
    assertThat(read()).hasSize(2);
    reads.table(Z, "u");
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
  }

  /** What they say may be alike. */
  @Test
  void filtersAreToldApart() {
    Expression one = in("id", "a\", \"b", "c");
    Expression two = in("id", "a", "b\", \"c");
    assertThat(one).hasToString(two.toString());
    reads.filter(A, "u", filter(one));
    reads.filter(A, "u", filter(two));
    reads.filter(A, "u", filter(in("id", "a\", \"b", "c")));
    assertThat(read()).hasSize(2);
  }

  @Test
  void manyFiltersAreEverything() {
    for (int each = 0; each < 2000; each++) {
      reads.filter(A, "u", filter(equal("id", each)));
    }
    assertThat(read()).containsExactly(RowFilter.EVERYTHING);
  }

  /** A transaction that has renamed columns reads by names that others do not know. */
  @Test
  void namesAreOfTheirSchema() {
    TableMetadata base =
        TableMetadata.newTableMetadata(Days.SCHEMA, Days.BY_DAY, "file:/t", Map.of());
    RowFilter same = new RowFilter(equal("id", 1), true, base.currentSchemaId());
    assertThat(same.within(base)).isSameAs(same);
    RowFilter renamed = new RowFilter(equal("id", 1), true, base.currentSchemaId() + 1);
    assertThat(renamed.within(base)).isEqualTo(RowFilter.EVERYTHING);
  }
}
