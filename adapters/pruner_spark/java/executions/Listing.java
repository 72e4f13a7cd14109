package pruner.spark.executions;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import scala.collection.Iterator;

/** One call for the files of a scan: its index and filters, by which the executed plan is searched for it. */
public final class Listing {
  public final long number;
  private final FileIndex index;
  private final scala.collection.Seq partitionFilters;
  private final scala.collection.Seq dataFilters;

  public Listing(
      long number,
      FileIndex index,
      scala.collection.Seq partitionFilters,
      scala.collection.Seq dataFilters) {
    this.number = number;
    this.index = index;
    this.partitionFilters = partitionFilters;
    this.dataFilters = dataFilters;
  }

  /** Whether a scan made this call; filters that are known only when the query runs are not part of the call. */
  public boolean isOf(FileSourceScanExec scan) {
    if (scan.relation().location() != index || !dataFilters.equals(scan.dataFilters())) {
      return false;
    }
    Iterator asked = partitionFilters.iterator();
    Iterator each = scan.partitionFilters().iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (!hasPlan(filter) && !(asked.hasNext() && asked.next().equals(filter))) {
        return false;
      }
    }
    return !asked.hasNext();
  }

  private static boolean hasPlan(Expression filter) {
    if (filter instanceof PlanExpression) {
      return true;
    }
    Iterator children = filter.children().iterator();
    while (children.hasNext()) {
      if (hasPlan((Expression) children.next())) {
        return true;
      }
    }
    return false;
  }
}
