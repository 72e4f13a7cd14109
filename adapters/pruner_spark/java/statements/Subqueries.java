package pruner.spark.statements;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractPartialFunction;

/**
 * The subqueries in the conditions of a query whose result is the same for every row, and the query with their results
 * in place of them: `key IN (SELECT ...)` that a condition demands, and `(SELECT ...)` as one value. Spark turns the
 * former into joins, whose keys no file scan is given.
 */
public final class Subqueries extends AbstractPartialFunction {
  private final LogicalPlan asked;
  private final LogicalPlan query;
  private final List found = new ArrayList();
  private final Map answers = new IdentityHashMap();

  /** With `cached`, the plans stay unchanged, so that Spark finds what it has cached. */
  public Subqueries(LogicalPlan asked, SQLConf conf, boolean cached) {
    this.asked = asked;
    this.query = cached ? asked : atOneMoment(asked, conf);
    look(query);
  }

  /** A statement has one current time in all its parts, but a subquery runs separately. `conf` has its zone. */
  private static LogicalPlan atOneMoment(final LogicalPlan plan, SQLConf conf) {
    return (LogicalPlan) SQLConf$.MODULE$.withExistingConf(
        conf,
        new AbstractFunction0() {
          public Object apply() {
            return ComputeCurrentTime$.MODULE$.apply(plan);
          }
        });
  }

  public int count() {
    return found.size();
  }

  public LogicalPlan plan(int number) {
    Object each = found.get(number);
    return each instanceof InSubquery
        ? (LogicalPlan) ((InSubquery) each).query().plan()
        : (LogicalPlan) ((ScalarSubquery) each).plan();
  }

  /** Take over the rows of a subquery; more than `most` keys are joined, as before, but not read again. */
  public void answer(int number, InternalRow[] rows, int most) {
    Expression each = (Expression) found.get(number);
    if (each instanceof InSubquery) {
      answers.put(each, listed((InSubquery) each, rows, most));
    } else if (rows.length < 2) {
      // For more than one row, Spark raises an error when the query runs.
      Object value = rows.length == 0 ? null : rows[0].copy().get(0, each.dataType());
      answers.put(each, new Literal(value, each.dataType()));
    }
  }

  /** The query with the answers that were given. */
  public LogicalPlan answered() {
    return answers.isEmpty() ? asked : (LogicalPlan) query.transformUp(this);
  }

  public boolean isDefinedAt(Object node) {
    return node instanceof Filter || answers.containsKey(node);
  }

  public Object apply(Object node) {
    if (!(node instanceof Filter)) {
      return answers.get(node);
    }
    Filter filter = (Filter) node;
    Object condition = filter.condition().transformDown(this);
    return condition == filter.condition()
        ? filter
        : filter.makeCopy(new Object[] {condition, filter.child()});
  }

  private void look(LogicalPlan plan) {
    if (plan instanceof Filter) {
      demanded(((Filter) plan).condition());
    }
    Iterator each = plan.children().iterator();
    while (each.hasNext()) {
      look((LogicalPlan) each.next());
    }
  }

  /** Collects from what holds for every row that is found: each conjunct. */
  private void demanded(Expression condition) {
    if (condition instanceof And) {
      demanded(((And) condition).left());
      demanded(((And) condition).right());
    } else if (condition instanceof InSubquery) {
      InSubquery in = (InSubquery) condition;
      boolean listable = in.values().size() == 1 && isComparedAsItIs(((Expression) in.values().head()).dataType());
      if (listable && in.query().children().isEmpty() && !tellsTheTime((LogicalPlan) in.query().plan())) {
        found.add(in);
      }
    } else {
      values(condition);
    }
  }

  private void values(Expression part) {
    if (part instanceof ScalarSubquery) {
      boolean single = part.children().isEmpty() && part.dataType() instanceof AtomicType;
      if (single && !tellsTheTime((LogicalPlan) ((ScalarSubquery) part).plan())) {
        found.add(part);
      }
      return;
    }
    Iterator each = part.children().iterator();
    while (each.hasNext()) {
      values((Expression) each.next());
    }
  }

  private static boolean tellsTheTime(LogicalPlan plan) {
    return plan.containsPattern(TreePattern$.MODULE$.CURRENT_LIKE());
  }

  /** Whether a join compares values as they are: it treats -0.0 as 0.0, and all NaN as equal. */
  public static boolean isComparedAsItIs(DataType type) {
    return type instanceof AtomicType
        && !(type instanceof DoubleType || type instanceof FloatType || type instanceof BinaryType);
  }

  private static Expression listed(InSubquery in, InternalRow[] rows, int most) {
    DataType type = ((Expression) in.values().head()).dataType();
    LinkedHashSet keys = new LinkedHashSet();
    for (int k = 0; k < rows.length; k++) {
      if (!rows[k].isNullAt(0)) {
        keys.add(new Literal(rows[k].copy().get(0, type), type));
      }
    }
    if (keys.isEmpty()) {
      return new Literal(Boolean.FALSE, in.dataType());
    }
    if (keys.size() > most) {
      ListQuery query = in.query();
      Object local = query.withNewPlan(local((LogicalPlan) query.plan(), rows));
      return (Expression) in.makeCopy(new Object[] {in.values(), local});
    }
    return new In(
        (Expression) in.values().head(), JavaConverters.asScalaBuffer(new ArrayList(keys)).toList());
  }

  /** Fetched rows instead of the plan that produced them. */
  public static LogicalPlan local(LogicalPlan plan, InternalRow[] rows) {
    return local(plan.output(), Arrays.asList(rows));
  }

  /** Fetched rows with the given columns. */
  public static LogicalPlan local(scala.collection.Seq output, List rows) {
    LogicalPlan empty = LocalRelation$.MODULE$.apply(($SEQ$) output);
    Object[] parts = new Object[empty.productArity()];
    for (int k = 0; k < parts.length; k++) {
      parts[k] = empty.productElement(k);
    }
    parts[1] = JavaConverters.asScalaBuffer(rows).toList();
    return (LogicalPlan) empty.makeCopy(parts);
  }
}
