package pruner.spark;

import java.util.List;
import java.util.WeakHashMap;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;

/** Makes what Python needs of this package, whose class loader Python's names do not reach. */
public final class Factory {
  private final WeakHashMap executions = new WeakHashMap();
  private Function planner;

  /** The planner, in Python, of all file indexes: given once, so that Python keeps one object for Java. */
  public void plannedBy(Function planner) {
    this.planner = planner;
  }

  /** See PrunedFileIndex. */
  public FileIndex index(
      FileIndex base, String table, SliceKeys keys, long patience, SparkContext context) {
    return new PrunedFileIndex(base, planner, table, keys, patience, context, executions(context));
  }

  /** See Executions; `patience` is in milliseconds. */
  public String filesRead(SparkContext context, long patience) {
    return executions(context).take(context, patience);
  }

  private synchronized Executions executions(SparkContext context) {
    Executions known = (Executions) executions.get(context);
    if (known == null) {
      known = new Executions();
      context.addSparkListener(known);
      executions.put(context, known);
    }
    return known;
  }

  /** See Slices. */
  public Slices slices(String lines, int count) {
    return new Slices(lines, count);
  }

  /** Keys of plain files. */
  public SliceKeys fileKeys() {
    return new SliceKeys();
  }

  /** Keys of Hudi's slices. The class is named in a text, as it cannot be compiled where Hudi is not. */
  public SliceKeys hudiKeys() throws ReflectiveOperationException {
    Class keys = getClass().getClassLoader().loadClass("pruner.spark.HudiSliceKeys");
    return (SliceKeys) keys.getConstructor(new Class[0]).newInstance(new Object[0]);
  }

  /** See Relations. */
  public List relations(LogicalPlan plan) {
    return Relations.of(plan);
  }

  /** See Relations. */
  public LogicalPlan replace(LogicalPlan plan, List leaves, List others) {
    return Relations.replace(plan, leaves, others);
  }

  /** See Sources. */
  public LogicalPlan source(LogicalPlan plan) {
    return Sources.of(plan);
  }

  /** See Sources. */
  public LogicalPlan withSource(LogicalPlan plan, LogicalPlan old, LogicalPlan source) {
    return Sources.replace(plan, old, source);
  }

  /** See Sources. */
  public LogicalPlan mergedInto(LogicalPlan plan) {
    return Sources.mergedInto(plan);
  }

  /** The places that an index lists, in lines. */
  public String roots(FileIndex index) {
    StringBuilder lines = new StringBuilder();
    Iterator paths = index.rootPaths().iterator();
    while (paths.hasNext()) {
      lines.append(lines.length() == 0 ? "" : "\n").append(SliceKeys.place((Path) paths.next()));
    }
    return lines.toString();
  }

  /** Options with one of them set. */
  public Map withOption(Map options, String key, String value) {
    return (Map) options.$plus(new Tuple2(key, value));
  }
}
