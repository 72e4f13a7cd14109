package pruner.spark.statements;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.collection.JavaConverters;

/**
 * A MERGE INTO, and the columns by which its source finds rows of its target: `t.column = (something of the source)` in
 * the condition. Hudi joins the source with a target that has no record key; of one with a key, it reads no rows.
 */
public final class Merging {
  private static final String PADDED = "__CHAR_VARCHAR_TYPE_STRING";

  private final LogicalPlan source;
  private final LogicalPlan target;
  private final List columns = new ArrayList();
  private final List keys = new ArrayList();
  private final boolean closed;

  public Merging(MergeIntoTable merge, LogicalPlan source) {
    this.source = source;
    this.target = merge.targetTable();
    Object others = Sources.call(merge, "notMatchedBySourceActions");
    closed = others == null || ((scala.collection.Seq) others).isEmpty();
    compare(merge.mergeCondition());
  }

  /** Whether Hudi reads rows of the target, and only those that have a match in the source. */
  public boolean joins() {
    Relations relations = new Relations(target);
    Object client = relations.count() == 1 ? Sources.call(relations.index(0), "metaClient") : null;
    Object config = client == null ? null : Sources.call(client, "getTableConfig");
    Object fields = config == null ? null : Sources.call(config, "getRecordKeyFields");
    return closed && fields != null && Boolean.FALSE.equals(Sources.call(fields, "isPresent"));
  }

  public LogicalPlan target() {
    return target;
  }

  /** The columns of the target that are compared, one per line. */
  public String columns() {
    return String.join("\n", columns);
  }

  /** The source as its fetched rows, so that the known rows are those that will be merged. */
  public LogicalPlan collected(InternalRow[] rows) {
    return Subqueries.local(source, rows);
  }

  /** The keys by which the rows of the source are compared: one for each of `columns`, under its name. */
  public LogicalPlan keys(LogicalPlan collected) {
    List named = new ArrayList();
    for (int k = 0; k < keys.size(); k++) {
      named.add(Names.alias((Expression) keys.get(k), (String) columns.get(k)));
    }
    return new Project(JavaConverters.asScalaBuffer(named).toList(), collected);
  }

  /** Collects what holds for every pair of matching rows: each conjunct. */
  private void compare(Expression condition) {
    if (condition instanceof And) {
      compare(((And) condition).left());
      compare(((And) condition).right());
    } else if (condition instanceof EqualTo) {
      EqualTo equal = (EqualTo) condition;
      if (!add(equal.left(), equal.right())) {
        add(equal.right(), equal.left());
      }
    }
  }

  /** Whether a key is a column of the source, possibly cast: anything else could change until it is merged. */
  private boolean ofSource(Expression key) {
    Expression inner = key;
    while (inner instanceof Cast) {
      inner = ((Cast) inner).child();
    }
    return inner instanceof AttributeReference && source.outputSet().contains((AttributeReference) inner);
  }

  private boolean add(Expression column, Expression key) {
    boolean fits =
        column instanceof AttributeReference
            && target.outputSet().contains((AttributeReference) column)
            && !((AttributeReference) column).metadata().contains(PADDED)
            && ofSource(key);
    if (fits && !columns.contains(((AttributeReference) column).name())) {
      columns.add(((AttributeReference) column).name());
      keys.add(key);
    }
    return fits;
  }
}
