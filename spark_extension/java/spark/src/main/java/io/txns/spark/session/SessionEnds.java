package io.txns.spark.session;

import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Undoes the transactions of sessions that end: a Connect session that is released or times out, a
 * connection to the Thrift server that is closed or lost, the application itself.
 *
 * <p>Spark tells of these ends by events that name the client's session, not Spark's. Which of
 * Spark's sessions it is, BEGIN finds in what both servers tag their statements with. The events'
 * classes are the servers' own and perhaps not on the class path, so they are known by name.
 */
public final class SessionEnds extends SparkListener {

  private static final String CONNECT = "org.apache.spark.sql.connect.service.SparkListenerConnect";
  private static final String THRIFT =
      "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServer";
  private static final Pattern CONNECT_TAG =
      Pattern.compile("SparkConnect_OperationTag_User_.*_Session_(.+)_Operation_.+");
  private static final String JOB_GROUP = "spark.jobGroup.id";

  private static final Map<SparkContext, SessionEnds> LISTENERS =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** Sessions of clients that have begun a transaction. */
  private final Map<String, TxnSession> sessions = new ConcurrentHashMap<>();

  // The Thrift server names to Spark the operation that runs a statement, and its session only in
  // an event, which may arrive before or after BEGIN runs.
  private final Map<String, String> thriftOperations = new ConcurrentHashMap<>();
  private final Map<String, TxnSession> begunByOperation = new ConcurrentHashMap<>();

  private SessionEnds() {}

  /** The listener of an application; it listens from the first session on. */
  public static SessionEnds of(SparkContext context) {
    return LISTENERS.computeIfAbsent(
        context,
        unused -> {
          SessionEnds listener = new SessionEnds();
          context.addSparkListener(listener);
          return listener;
        });
  }

  /** A transaction begins in {@code state}, by the statement that this thread runs. */
  public void begun(SparkContext context, TxnSession state) {
    for (String tag : CollectionConverters.asJava(context.getJobTags())) {
      Matcher matcher = CONNECT_TAG.matcher(tag);
      if (matcher.matches()) {
        sessions.put(matcher.group(1), state);
        return;
      }
    }
    String operation = context.getLocalProperty(JOB_GROUP);
    if (operation != null) {
      // Others than the Thrift server give their jobs groups, too, and tell of no end.
      begunByOperation.values().retainAll(TxnSession.inTransaction());
      begunByOperation.put(operation, state);
      join(operation);
    }
  }

  private void join(String operation) {
    String session = thriftOperations.get(operation);
    TxnSession state = session == null ? null : begunByOperation.remove(operation);
    if (state != null) {
      sessions.put(session, state);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    String name = event.getClass().getName();
    if (name.equals(THRIFT + "OperationStart")) {
      thriftOperations.put(text(event, 0), text(event, 1));
      join(text(event, 0));
    } else if (name.equals(THRIFT + "OperationClosed")) {
      thriftOperations.remove(text(event, 0));
      begunByOperation.remove(text(event, 0));
    } else if (name.equals(THRIFT + "SessionClosed") || name.equals(CONNECT + "SessionClosed")) {
      TxnSession state = sessions.remove(text(event, 0));
      if (state != null) {
        Background.UNDOING.soon(state::abandon);
      }
    }
  }

  private static String text(SparkListenerEvent event, int field) {
    return String.valueOf(((Product) event).productElement(field));
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    TxnSession.inTransaction().forEach(TxnSession::abandon);
  }
}
