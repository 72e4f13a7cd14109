package pruner.spark;

import java.util.ArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The file index that Spark or Hudi resolved, asked first and for everything, with the files left out of its
 * listing that the planner (in Python) drops. Whatever goes wrong there, the listing stays as it was.
 */
public final class PrunedFileIndex implements FileIndex {
  private static final int MOST_THREADS = 64;
  private static final ThreadPoolExecutor THREADS =
      new ThreadPoolExecutor(0, MOST_THREADS, 30L, TimeUnit.SECONDS, new SynchronousQueue(), new Daemons());
  private static final AtomicLong SCANS = new AtomicLong();
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final FileIndex base;
  private final Function planner;
  private final String table;
  private final SliceKeys keys;
  private final long patience;
  private final SparkContext context;
  private final Executions executions;

  /** `table` is the planner's name for what is read and how; `patience` is in milliseconds. */
  PrunedFileIndex(
      FileIndex base,
      Function planner,
      String table,
      SliceKeys keys,
      long patience,
      SparkContext context,
      Executions executions) {
    this.base = base;
    this.planner = planner;
    this.table = table;
    this.keys = keys;
    this.patience = patience;
    this.context = context;
    this.executions = executions;
  }

  public FileIndex base() {
    return base;
  }

  public $SEQ$ listFiles($SEQ$ partitionFilters, $SEQ$ dataFilters) {
    $SEQ$ listing = base.listFiles(partitionFilters, dataFilters);
    long number = SCANS.incrementAndGet();
    Scan scan = new Scan(table, number, base, keys, listing, Predicates.all(partitionFilters, dataFilters));
    executions.listed(context, new Listing(number, this, partitionFilters, dataFilters));
    try {
      plan(scan);
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

  private void plan(Scan scan) throws InterruptedException, ExecutionException, TimeoutException {
    Future running = THREADS.submit(new Call(planner, scan));
    running.get(patience, TimeUnit.MILLISECONDS);
  }

  /** Record a failure with the planner if it answers at all, and in Spark's own log. */
  private void fail(Scan scan, String reason) {
    scan.abandon();
    LOGGER.warn("scan of {} is not pruned: {}", base, reason);
    try {
      THREADS.submit(new Call(planner, new Failure(scan.head() + reason)));
    } catch (RejectedExecutionException error) {
      LOGGER.warn("the planner cannot be told");
    }
  }

  public $SEQ$ rootPaths() {
    return base.rootPaths();
  }

  public String[] inputFiles() {
    return base.inputFiles();
  }

  public void refresh() {
    base.refresh();
  }

  /**
   * What joins are planned by. Hudi's index knows its size only once it has listed its files, and says 0 before,
   * by which every table would be broadcast; for relations of its own Hudi has a rule that lists them in time.
   */
  public long sizeInBytes() {
    if (base.sizeInBytes() == 0L) {
      $SEQ$ nothing = PythonUtils.toSeq(new ArrayList());
      base.listFiles(nothing, nothing);
    }
    return base.sizeInBytes();
  }

  public StructType partitionSchema() {
    return base.partitionSchema();
  }

  public scala.Option metadataOpsTimeNs() {
    return base.metadataOpsTimeNs();
  }

  public String toString() {
    return "pruner over " + base;
  }

  /** Equal indexes let Spark reuse exchanges and cached data, as it does with the indexes that are wrapped. */
  public boolean equals(Object other) {
    if (!(other instanceof PrunedFileIndex)) {
      return false;
    }
    PrunedFileIndex index = (PrunedFileIndex) other;
    return table.equals(index.table) && base.equals(index.base);
  }

  public int hashCode() {
    return 31 * table.hashCode() + base.hashCode();
  }
}
