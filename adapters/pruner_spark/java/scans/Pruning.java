package pruner.spark.scans;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.executions.Executions;
import pruner.spark.executions.Listing;
import pruner.spark.indexes.Listed;
import pruner.spark.indexes.Settled;
import pruner.spark.indexes.SliceKeys;

/**
 * What the file indexes of one relation share: they delegate everything to the index that Spark or Hudi resolved, and
 * remove from its listing the files that the planner (in Python) drops. If planning fails, the listing stays unchanged.
 * The plan is made while the files are listed: only the listing decides which files exist, and a file that the plan
 * does not know stays.
 */
public final class Pruning {
  private static final int MOST_THREADS = 64;

  /** Scans that may be planned while they list: above this, slow listings must not occupy the threads of others. */
  private static final int MOST_AHEAD = 16;

  /** Prefix of the planner's names for relations that are read with keys, which leave out files by themselves. */
  private static final String KEYED = "keys-";

  private static final ThreadPoolExecutor THREADS =
      new ThreadPoolExecutor(0, MOST_THREADS, 30L, TimeUnit.SECONDS, new SynchronousQueue(), new Daemons());
  private static final $SEQ$ NO_FILTERS = PythonUtils.toSeq(new ArrayList());
  private static final AtomicLong SCANS = new AtomicLong();
  private static final ConcurrentLinkedQueue TELLING = new ConcurrentLinkedQueue();
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final BiFunction planner;
  private final String table;
  private final SliceKeys keys;
  private final SparkSession reader;
  private final long patience;
  private final SparkContext context;
  private final Executions executions;

  /**
   * `table` is the planner's name for what is read and how, `reader` the session whose settings files are read with;
   * `patience` is in milliseconds.
   */
  public Pruning(
      BiFunction planner,
      String table,
      SliceKeys keys,
      SparkSession reader,
      long patience,
      SparkContext context,
      Executions executions) {
    this.planner = planner;
    this.table = table;
    this.keys = keys;
    this.reader = reader;
    this.patience = patience;
    this.context = context;
    this.executions = executions;
  }

  /** What is left of an index's own listing for these filters. */
  public $SEQ$ prune(FileIndex index, Listed base, $SEQ$ partitionFilters, $SEQ$ dataFilters) {
    Scan scan = scan(index, partitionFilters, dataFilters, null);
    Listing noted = new Listing(scan.number(), index, partitionFilters, dataFilters);
    return planned(scan, base, partitionFilters, dataFilters, noted);
  }

  /**
   * What is left of the listing while the query is optimized, and what is proved about the rest. `dataFilters` are all
   * filters, including those on partitions.
   */
  public Settled settle(
      FileIndex index, Listed base, $SEQ$ partitionFilters, $SEQ$ dataFilters, Asking asking) {
    Scan scan = scan(index, NO_FILTERS, dataFilters, asking);
    $SEQ$ files = planned(scan, base, partitionFilters, dataFilters, null);
    return new Settled(scan.number(), files, partitionFilters, scan.answer());
  }

  /** Record that a scan gets its files. */
  public void listed(Listing listing) {
    executions.listed(context, listing);
  }

  /** What is left of files that no index lists; `told` has their version and what else the planner must know. */
  public $SEQ$ prune(Listed base, List filters, Map told) {
    return planned(scan(filters, told, null), base, NO_FILTERS, PythonUtils.toSeq(filters), null);
  }

  /** What the planner knows in advance about files that no index lists, all of which stay; as JSON, or null. */
  public String ask(Listed base, List filters, Map told, Map question) {
    Scan scan = scan(filters, told, question);
    planned(scan, base, NO_FILTERS, PythonUtils.toSeq(filters), null);
    return scan.answer();
  }

  /** A scan of files that no index lists. */
  private Scan scan(List filters, Map told, Map question) {
    Expression predicate = predicate(NO_FILTERS, PythonUtils.toSeq(filters));
    return scan(null, predicate, told, question == null ? null : new Asking(question, predicate));
  }

  private Scan scan(FileIndex index, $SEQ$ partitionFilters, $SEQ$ dataFilters, Asking asking) {
    String pinned = ((Listed) index).pinned();
    Map told = pinned == null ? null : Collections.singletonMap("pinned", pinned);
    return scan(index, predicate(partitionFilters, dataFilters), told, asking);
  }

  private Scan scan(FileIndex index, Expression predicate, Map told, Asking asking) {
    boolean whole = isWhole(predicate, asking);
    return new Scan(table, SCANS.incrementAndGet(), reader, index, keys, predicate, asking, told, whole);
  }

  /** Whether nothing is demanded of the rows, so that no file can be left out: the scan does not wait for its plan. */
  private boolean isWhole(Expression predicate, Asking asking) {
    return predicate == null && asking == null && !table.startsWith(KEYED);
  }

  private $SEQ$ planned(
      Scan scan, Listed base, $SEQ$ partitionFilters, $SEQ$ dataFilters, Listing noted) {
    // Where Spark has listed the files, it finds their partitions at once; if none is left, there is nothing to plan.
    boolean first = base instanceof InMemoryFileIndex && !partitionFilters.isEmpty();
    Future ahead = first ? null : ahead(scan);
    if (ahead != null && scan.isWhole()) {
      remember(ahead);
    }
    $SEQ$ listing = null;
    try {
      listing = base.listed(partitionFilters, dataFilters);
    } finally {
      scan.listed(listing);
    }
    if (noted != null) {
      listed(noted);
    }
    if (first && listing.isEmpty()) {
      tell(scan.head());
      return listing;
    }
    if (ahead != null && scan.isWhole()) {
      return listing;
    }
    try {
      Future running = ahead == null ? THREADS.submit(new Call(planner, scan)) : ahead;
      running.get(patience, TimeUnit.MILLISECONDS);
      return scan.close();
    } catch (TimeoutException error) {
      fail(scan, "planning took longer than " + patience + " ms");
    } catch (RejectedExecutionException error) {
      fail(scan, MOST_THREADS + " scans are being planned already");
    } catch (ExecutionException error) {
      fail(scan, "planning failed: " + error.getCause());
    } catch (InterruptedException error) {
      scan.abandon();
      Thread.currentThread().interrupt();
    } catch (Throwable error) {
      fail(scan, "planning failed: " + error);
    }
    return listing;
  }

  private static Expression predicate($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    Expression predicate = Predicates.all(partitionFilters, dataFilters);
    try {
      return Spelled.of(predicate);
    } catch (Throwable error) {
      LOGGER.info("a predicate is left as it is: {}", error.toString());
    }
    return predicate;
  }

  /** Equal for equal relations, which Spark reads once. */
  public String name() {
    return table + "/" + patience;
  }

  public SparkSession reader() {
    return reader;
  }

  private Future ahead(Scan scan) {
    try {
      return THREADS.getActiveCount() < MOST_AHEAD ? THREADS.submit(new Call(planner, scan)) : null;
    } catch (RejectedExecutionException error) {
      return null;
    }
  }

  /** Record a failure with the planner, if it responds at all, and in Spark's own log. */
  private void fail(Scan scan, String reason) {
    scan.abandon();
    LOGGER.warn("scan of {} is not pruned: {}", scan.index(), reason);
    tell(scan.head() + reason);
  }

  /** Record that a scan stays unpruned. */
  public void leave(String reason) {
    tell(table + "\t" + SCANS.incrementAndGet() + "\t" + reason);
  }

  /** Tell the planner without waiting for it: see `told`. */
  private void tell(String text) {
    try {
      remember(THREADS.submit(new Call(planner, text)));
    } catch (RejectedExecutionException error) {
      LOGGER.warn("the planner cannot be told");
    }
  }

  private static void remember(Future telling) {
    Future first = (Future) TELLING.peek();
    while (first != null && first.isDone()) {
      TELLING.remove(first);
      first = (Future) TELLING.peek();
    }
    TELLING.add(telling);
  }

  /** Wait until the planner has received all that it was told. */
  public static void told(long patience) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patience);
    Future next = (Future) TELLING.poll();
    while (next != null) {
      try {
        next.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
      } catch (ExecutionException error) {
        LOGGER.warn("the planner cannot be told: {}", error.getCause());
      } catch (TimeoutException error) {
        LOGGER.info("the planner has not been told of all scans yet");
      }
      next = (Future) TELLING.poll();
    }
  }
}
