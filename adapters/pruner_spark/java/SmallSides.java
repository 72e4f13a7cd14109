package pruner.spark;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding$;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.AtomicType;
import pruner.spark.indexes.Settleable;
import pruner.spark.statements.Sources;
import pruner.spark.statements.Subqueries;
import scala.collection.Iterator;
import scala.runtime.AbstractPartialFunction;

/**
 * Joins of a pruned relation with a small side, and conditions with one value of a small subquery. The small side is
 * fetched once, while the query is optimized: its rows replace it, and its keys tell which files of the pruned relation
 * can hold rows that are joined. It must be the same whenever it is read: a few files, or rows in the query itself, and
 * nothing but what is derived from these rows.
 */
final class SmallSides {
  /** Most bytes of the files of a small side: reading them costs less than a query over many files. */
  private static final long MOST_BYTES = 2L << 20;

  /** Most rows of a small side: as many as the keys that are looked up one by one (key_lists.py). */
  private static final int MOST_ROWS = 16_384;

  /** Most keys that are looked up one by one, per file and for any table: opening a file takes longer than these. */
  private static final long KEYS_OF_A_FILE = 2L;

  private static final long MOST_KEYS = 64L;

  /** Rows in the query itself are examined if there are not many per file: they can save little. */
  private static final long ROWS_OF_A_FILE = 16L;

  private static final long FEW_ROWS = 1_024L;

  /** Marks what was fetched, or was found to be too large: the rule runs until nothing changes. */
  private static final TreeNodeTag TRIED = new TreeNodeTag("pruner.tried");

  /** Delta's index of one version of a table. */
  private static final String PREPARED = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex";

  private final SparkSession session;

  SmallSides(SparkSession session) {
    this.session = session;
  }

  /** The join with a fetched small side, and the files that its keys leave; the join itself if nothing is gained. */
  LogicalPlan joined(Join join) throws Throwable {
    if (!join.condition().isDefined() || !join.hint().equals(JoinHint.NONE())) {
      return join;
    }
    LogicalPlan pruned = null;
    if (needsPartners(join.joinType(), true)) {
      pruned = joined(join, join.left(), join.right());
    }
    if (pruned == null && needsPartners(join.joinType(), false)) {
      pruned = joined(join, join.right(), join.left());
    }
    return pruned == null ? join : pruned;
  }

  /** Whether rows of a side do not affect the result unless they meet the condition with a row of the other side. */
  private static boolean needsPartners(Object type, boolean left) {
    if (type == Inner$.MODULE$ || type == LeftSemi$.MODULE$) {
      return true;
    }
    boolean keepsLeft = type == LeftOuter$.MODULE$ || type == LeftAnti$.MODULE$ || type instanceof ExistenceJoin;
    return left ? type == RightOuter$.MODULE$ : keepsLeft;
  }

  private LogicalPlan joined(Join join, LogicalPlan large, LogicalPlan small) throws Throwable {
    long bytes = small.getTagValue(TRIED).isDefined() ? -1L : cheapBytes(small);
    if (bytes < 0L) {
      return null;
    }
    List equal = new ArrayList();
    split((Expression) join.condition().get(), equal);
    List keys = new ArrayList();
    Chain chain = null;
    for (int k = 0; k < equal.size(); k++) {
      JoinKey key = JoinKey.of((EqualTo) equal.get(k), large, small);
      Chain found = key == null ? null : Chain.within(large, key.column, session);
      if (found != null && (chain == null || chain.top == found.top) && found.scanned.bytes() > bytes) {
        chain = found;
        keys.add(key);
      }
    }
    if (chain == null) {
      return null;
    }
    InternalRow[] rows = rows(small);
    long most = Math.max(MOST_KEYS, KEYS_OF_A_FILE * chain.scanned.files());
    long few = Math.max(FEW_ROWS, ROWS_OF_A_FILE * chain.scanned.files());
    boolean asked = rows != null && (bytes > 0L || rows.length <= few);
    List conditions = new ArrayList();
    for (int k = 0; asked && k < keys.size(); k++) {
      Expression condition = ((JoinKey) keys.get(k)).among(small, rows, most);
      if (condition != null) {
        conditions.add(condition);
      }
    }
    if (rows == null) {
      small.setTagValue(TRIED, Boolean.TRUE);
      return null;
    }
    if (conditions.isEmpty() ? small instanceof LocalRelation : chain.isAmong(conditions)) {
      return null;
    }
    LogicalPlan local = Subqueries.local(small, rows);
    local.setTagValue(TRIED, Boolean.TRUE);
    Map replaced = new IdentityHashMap();
    replaced.put(small, local);
    if (!conditions.isEmpty()) {
      replaced.put(chain.top, chain.among(conditions));
    }
    return (LogicalPlan) join.transformUp(new Replaced(replaced));
  }

  private static void split(Expression condition, List equal) {
    if (condition instanceof And) {
      split(((And) condition).left(), equal);
      split(((And) condition).right(), equal);
    } else if (condition instanceof EqualTo) {
      equal.add(condition);
    }
  }

  /** The rows of a plan; null if there are more than may be fetched. */
  private InternalRow[] rows(LogicalPlan plan) throws Throwable {
    LogicalPlan here = here(plan);
    if (here instanceof Union) {
      return united(here.children().iterator());
    }
    if (here instanceof LocalRelation) {
      List rows = new ArrayList();
      Iterator each = ((LocalRelation) here).data().iterator();
      while (each.hasNext() && rows.size() <= MOST_ROWS) {
        rows.add(each.next());
      }
      return rows.size() > MOST_ROWS ? null : (InternalRow[]) rows.toArray(new InternalRow[rows.size()]);
    }
    SessionState state = (SessionState) Sources.call(session, "sessionState");
    InternalRow[] rows =
        state
            .executePlan(here, CommandExecutionMode$.MODULE$.SKIP())
            .executedPlan()
            .executeTake(MOST_ROWS + 1);
    return rows.length > MOST_ROWS ? null : rows;
  }

  private InternalRow[] united(Iterator plans) throws Throwable {
    List rows = new ArrayList();
    while (plans.hasNext()) {
      InternalRow[] more = rows((LogicalPlan) plans.next());
      if (more == null || rows.size() + more.length > MOST_ROWS) {
        return null;
      }
      rows.addAll(Arrays.asList(more));
    }
    return (InternalRow[]) rows.toArray(new InternalRow[rows.size()]);
  }

  /** The plan evaluated by a rule of Spark's, without a job, as far as it reads no files. */
  private static LogicalPlan here(LogicalPlan plan) {
    LogicalPlan made = (LogicalPlan) plan.transformUp(new Counted());
    LogicalPlan before = null;
    while (made != before && !(made instanceof LocalRelation)) {
      before = made;
      made = ConvertToLocalRelation$.MODULE$.apply(made);
    }
    return made;
  }

  /** A filter with the values of its cheap subqueries, if it is over a pruned relation. */
  LogicalPlan filtered(Filter filter) throws Throwable {
    if (!filter.condition().containsPattern(TreePattern.SCALAR_SUBQUERY())
        || Chain.scanned(filter.child(), session) == null) {
      return filter;
    }
    Map values = new IdentityHashMap();
    answer(filter.condition(), values);
    if (values.isEmpty()) {
      return filter;
    }
    Object condition = filter.condition().transformUp(new Replaced(values));
    LogicalPlan known = (LogicalPlan) filter.makeCopy(new Object[] {condition, filter.child()});
    // A value may be cast to the type of the column that it is compared with.
    return ConstantFolding$.MODULE$.apply(known);
  }

  private void answer(Expression part, Map values) throws Throwable {
    if (part instanceof ScalarSubquery) {
      LogicalPlan plan = (LogicalPlan) ((ScalarSubquery) part).plan();
      boolean known = part.children().isEmpty() && part.dataType() instanceof AtomicType;
      if (known && !plan.getTagValue(TRIED).isDefined() && cheapBytes(plan) >= 0L) {
        InternalRow[] rows = rows(plan);
        // For more than one row, Spark raises an error when the query runs.
        if (rows != null && rows.length < 2) {
          Object value = rows.length == 0 ? null : rows[0].copy().get(0, part.dataType());
          values.put(part, new Literal(value, part.dataType()));
        }
        plan.setTagValue(TRIED, Boolean.TRUE);
      }
      return;
    }
    Iterator each = part.children().iterator();
    while (each.hasNext()) {
      answer((Expression) each.next(), values);
    }
  }

  /** The bytes of the files that a plan reads, if it is cheap and deterministic; otherwise -1. */
  private static long cheapBytes(LogicalPlan plan) {
    boolean known = plan instanceof Project || plan instanceof Filter || plan instanceof Aggregate;
    if (plan.isStreaming() || !isSteady(plan)) {
      return -1L;
    }
    if (plan instanceof LocalRelation || plan instanceof OneRowRelation) {
      return 0L;
    }
    if (plan instanceof Range) {
      return ((Range) plan).numElements().compare(new scala.math.BigInt(BigInteger.valueOf(MOST_ROWS))) > 0 ? -1L : 0L;
    }
    if (plan instanceof Union) {
      return cheapBytes(plan.children().iterator());
    }
    if (plan instanceof LogicalRelation || plan instanceof DataSourceV2ScanRelation) {
      long bytes = bytesOfFiles(plan);
      return bytes > MOST_BYTES ? -1L : bytes;
    }
    return known ? cheapBytes((LogicalPlan) plan.children().head()) : -1L;
  }

  private static long cheapBytes(Iterator plans) {
    long bytes = 0L;
    while (plans.hasNext()) {
      long more = cheapBytes((LogicalPlan) plans.next());
      bytes += more;
      if (more < 0L || bytes > MOST_BYTES) {
        return -1L;
      }
    }
    return bytes;
  }

  /** The bytes of the files that a leaf reads, if they are the same whenever it is read; otherwise -1. */
  private static long bytesOfFiles(LogicalPlan leaf) {
    if (leaf instanceof DataSourceV2ScanRelation) {
      return ScannedTasks.bytes((DataSourceV2ScanRelation) leaf);
    }
    Object relation = ((LogicalRelation) leaf).relation();
    return relation instanceof HadoopFsRelation && isOfFiles(((HadoopFsRelation) relation).location())
        ? ((HadoopFsRelation) relation).location().sizeInBytes()
        : -1L;
  }

  /** Whether an index lists plain files, or those of a version: about other indexes nothing is known. */
  private static boolean isOfFiles(FileIndex index) {
    return index instanceof InMemoryFileIndex
        || index instanceof CatalogFileIndex
        || index instanceof Settleable
        || index.getClass().getName().equals(PREPARED);
  }

  private static boolean isSteady(LogicalPlan plan) {
    Iterator each = plan.expressions().iterator();
    while (each.hasNext()) {
      if (!isSteady((Expression) each.next())) {
        return false;
      }
    }
    return true;
  }

  private static boolean isSteady(Expression expression) {
    if (!expression.deterministic()
        || expression instanceof UserDefinedExpression
        || expression.containsPattern(TreePattern.PLAN_EXPRESSION())) {
      return false;
    }
    Iterator each = expression.children().iterator();
    while (each.hasNext()) {
      if (!isSteady((Expression) each.next())) {
        return false;
      }
    }
    return true;
  }

  /** Replaces a range, and the one row of a SELECT without FROM, by their rows. */
  private static final class Counted extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof Range || node instanceof OneRowRelation;
    }

    public Object apply(Object node) {
      List rows = new ArrayList();
      if (node instanceof Range) {
        Range range = (Range) node;
        long count = range.numElements().longValue();
        for (long k = 0L; k < count; k++) {
          rows.add(new GenericInternalRow(new Object[] {Long.valueOf(range.start() + k * range.step())}));
        }
      } else {
        rows.add(new GenericInternalRow(new Object[0]));
      }
      return Subqueries.local(((LogicalPlan) node).output(), rows);
    }
  }

  /** Replaces nodes, which are looked up by identity. */
  static final class Replaced extends AbstractPartialFunction {
    private final Map others;

    Replaced(Map others) {
      this.others = others;
    }

    public boolean isDefinedAt(Object node) {
      return others.containsKey(node);
    }

    public Object apply(Object node) {
      return others.get(node);
    }
  }
}
