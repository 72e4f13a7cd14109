package pruner.spark.executions;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.util.AccumulatorV2;
import scala.collection.Iterator;

/** Finds the scans of an executed plan that listings were made for, and reads their counts from Spark's own metrics. */
public final class ExecutedScans {
  private final List listings;
  private final List counts = new ArrayList();

  public ExecutedScans(List listings) {
    this.listings = listings;
  }

  /** For each scan found: number, files that were left to it, files that it read, separated by tabs. */
  public List of(SparkPlan plan) {
    walk(plan);
    return counts;
  }

  private void walk(SparkPlan plan) {
    if (plan instanceof AdaptiveSparkPlanExec) {
      walk(((AdaptiveSparkPlanExec) plan).executedPlan());
    } else if (plan instanceof QueryStageExec) {
      walk(((QueryStageExec) plan).plan());
    } else if (plan instanceof InMemoryTableScanExec) {
      walk(((InMemoryTableScanExec) plan).relation().cachedPlan());
    } else if (plan instanceof CommandResultExec) {
      walk(((CommandResultExec) plan).commandPhysicalPlan());
    } else if (plan instanceof FileSourceScanExec) {
      count((FileSourceScanExec) plan);
    }
    walkAll(plan.children());
    walkAll(plan.subqueries());
  }

  private void walkAll(scala.collection.Seq plans) {
    Iterator each = plans.iterator();
    while (each.hasNext()) {
      walk((SparkPlan) each.next());
    }
  }

  private void count(FileSourceScanExec scan) {
    for (int k = 0; k < listings.size(); k++) {
      Listing listing = (Listing) listings.get(k);
      if (listing.isOf(scan)) {
        listings.remove(k);
        long read = metric(scan, "numFiles", 0L);
        counts.add(listing.number + "\t" + metric(scan, "staticFilesNum", read) + "\t" + read);
        return;
      }
    }
  }

  /** `staticFilesNum` exists only where a scan has filters that become known when the query runs. */
  private static long metric(FileSourceScanExec scan, String name, long otherwise) {
    scala.Option found = scan.metrics().get(name);
    if (!found.isDefined()) {
      return otherwise;
    }
    Object value = ((AccumulatorV2) found.get()).value();
    return ((Long) value).longValue();
  }
}
