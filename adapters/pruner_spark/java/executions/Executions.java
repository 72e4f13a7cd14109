package pruner.spark.executions;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many files the scans of each query finally read: dynamic partition pruning drops some after the file index has
 * answered, which only the executed plan shows.
 */
public final class Executions extends SparkListener {
  private static final int REMEMBERED = 256;
  private static final String ID = "spark.sql.execution.id";
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final Map running = new LinkedHashMap();
  private final List ended = new ArrayList();

  /** Remember a scan that gets its listing now, on a thread of the query that it belongs to. */
  public void listed(SparkContext context, Listing listing) {
    String id = context.getLocalProperty(ID);
    if (id == null) {
      return;
    }
    synchronized (running) {
      List listings = (List) running.remove(id);
      if (listings == null) {
        listings = new ArrayList();
      }
      listings.add(listing);
      running.put(id, listings);
      if (running.size() > REMEMBERED) {
        Iterator oldest = running.keySet().iterator();
        oldest.next();
        oldest.remove();
      }
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd)) {
      return;
    }
    SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
    List listings;
    synchronized (running) {
      listings = (List) running.remove(String.valueOf(end.executionId()));
    }
    QueryExecution execution = end.qe();
    if (listings == null || execution == null || end.executionFailure().isDefined()) {
      return;
    }
    try {
      keep(new ExecutedScans(listings).of(execution.executedPlan()));
    } catch (RuntimeException error) {
      LOGGER.warn("the files that a query has read are not counted: {}", error.toString());
    }
  }

  private void keep(List counts) {
    synchronized (ended) {
      ended.addAll(counts);
      int surplus = ended.size() - REMEMBERED;
      if (surplus > 0) {
        ended.subList(0, surplus).clear();
      }
    }
  }

  /** The counts since the last call, one per line: see ExecutedScans. Waits until Spark has reported past queries. */
  public String take(SparkContext context, long patience) {
    try {
      context.listenerBus().waitUntilEmpty(patience);
    } catch (TimeoutException error) {
      LOGGER.info("Spark has not told of all queries yet");
    }
    synchronized (ended) {
      String lines = String.join("\n", ended);
      ended.clear();
      return lines;
    }
  }
}
