package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.admin.Purger;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.table.Claim;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.ToLongBiFunction;
import java.util.function.ToLongFunction;
import org.apache.iceberg.catalog.TableIdentifier;

/** The calls of upkeep and repair: each is a method of the handle. */
record UpkeepCalls(Session session) {
  void into(Map<String, Session.Call> calls) {
    calls.put("register", ofTable(TxnHandle::register));
    calls.put("forget", ofTable(TxnHandle::forget));
    calls.put("repair_adopt", ofTable(TxnHandle::repairAdopt));
    calls.put("repair_reject", ofTable(TxnHandle::repairReject));
    calls.put("apply_table", ofTable(TxnHandle::apply));
    calls.put("apply", ofAll(TxnHandle::apply));
    calls.put("tidy", ofAll(TxnHandle::tidy));
    calls.put("upper", ofAll(TxnHandle::upper));
    calls.put("off", args -> nothing(session.handle().off()));
    calls.put("on", args -> nothing(session.handle().on()));
    calls.put("purge", this::purge);
  }

  /** A purge in a lake whose transactions are younger than usual: the drop need not be old. */
  private JsonNode purge(JsonNode args) {
    OptionalLong maxAge =
        args.has("max_age_ms")
            ? OptionalLong.of(args.get("max_age_ms").asLong())
            : OptionalLong.empty();
    Services services = session.handle().services();
    return nothing(
        new Purger(services, Claim.DURATION_MS, maxAge).purge(Json.table(args.get("table"))));
  }

  private Session.Call ofAll(ToLongFunction<TxnHandle> does) {
    return args -> number(does.applyAsLong(session.handle()));
  }

  private Session.Call ofTable(ToLongBiFunction<TxnHandle, TableIdentifier> does) {
    return args -> number(does.applyAsLong(session.handle(), Json.table(args.get("table"))));
  }

  private static JsonNode number(long number) {
    return JsonNodeFactory.instance.numberNode(number);
  }

  private static JsonNode nothing(Object answer) {
    return Json.none();
  }
}
