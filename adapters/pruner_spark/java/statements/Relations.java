package pruner.spark.statements;

import java.io.IOException;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import pruner.spark.iceberg.IcebergTables;
import scala.Tuple2;

/** The relations over files in an analyzed plan, including those in subqueries and views, each once. */
public final class Relations {
  private static final Tuple2 MARK = new Tuple2("pruner", "to be replaced");

  /** The option that names what a relation reads if it reads less than what its predicate says. */
  public static final String APART = "pruner.keys";

  private final List leaves = new ArrayList();

  public Relations(LogicalPlan plan) {
    plan.transformUpWithSubqueries(new Leaves(new IdentityHashMap(), leaves));
  }

  /** What the planner must know about each relation, as JSON: one call however many there are. */
  public String described() throws IOException {
    return Json.of(descriptions());
  }

  /** See Description. */
  public List descriptions() {
    List descriptions = new ArrayList();
    for (int k = 0; k < leaves.size(); k++) {
      descriptions.add(Description.of(leaves.get(k)));
    }
    return descriptions;
  }

  public int count() {
    return leaves.size();
  }

  /** The index that lists the files of a relation; null for one without an index. */
  public FileIndex index(int position) {
    return leaves.get(position) instanceof DataSourceV2Relation ? null : relation(position).location();
  }

  /** The session whose settings files are read with. */
  public SparkSession reader(int position) {
    return relation(position).sparkSession();
  }

  private HadoopFsRelation relation(int position) {
    return (HadoopFsRelation) ((LogicalRelation) leaves.get(position)).relation();
  }

  /**
   * A plan with other file indexes (by position) and further options (a map, by position) in these relations. Those
   * with the option `APART` must not be equal to others: Spark would use the exchanges or cached rows of one for the
   * other. Spark keeps a node whose replacement is equal to it, and our indexes are equal to those that they wrap: so
   * each leaf is first replaced by one with a mark.
   */
  public LogicalPlan replaced(LogicalPlan plan, Map indexes, Map more) {
    Map marked = new IdentityHashMap();
    Map replaced = new IdentityHashMap();
    for (int k = 0; k < leaves.size(); k++) {
      FileIndex index = (FileIndex) indexes.get(Integer.valueOf(k));
      Map own = (Map) more.get(Integer.valueOf(k));
      if (index == null && own != null) {
        marked.put(leaves.get(k), IcebergTables.with((DataSourceV2Relation) leaves.get(k), own));
      } else if (index != null) {
        LogicalRelation leaf = (LogicalRelation) leaves.get(k);
        scala.collection.immutable.Map options = with(relation(k).options(), own);
        LogicalPlan mark = with(leaf, index(k), (scala.collection.immutable.Map) options.$plus(MARK));
        marked.put(leaf, mark);
        replaced.put(mark, with(leaf, index, options));
      }
    }
    LogicalPlan between = (LogicalPlan) plan.transformUpWithSubqueries(new Leaves(marked, new ArrayList()));
    return (LogicalPlan) between.transformUpWithSubqueries(new Leaves(replaced, new ArrayList()));
  }

  private static scala.collection.immutable.Map with(scala.collection.immutable.Map options, Map more) {
    scala.collection.immutable.Map all = options;
    Iterator each = more.entrySet().iterator();
    while (each.hasNext()) {
      Map.Entry one = (Map.Entry) each.next();
      all = (scala.collection.immutable.Map) all.$plus(new Tuple2(one.getKey(), one.getValue()));
    }
    return all;
  }

  /** The same leaf over another index, with other options. */
  public static LogicalPlan with(LogicalRelation leaf, FileIndex index, scala.collection.immutable.Map options) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    Object[] parts = new Object[leaf.productArity()];
    for (int k = 0; k < parts.length; k++) {
      parts[k] = leaf.productElement(k);
    }
    parts[0] =
        new HadoopFsRelation(
            index,
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            options,
            relation.sparkSession());
    return (LogicalPlan) leaf.makeCopy(parts);
  }
}
