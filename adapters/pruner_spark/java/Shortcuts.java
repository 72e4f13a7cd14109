package pruner.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.statements.Sources;
import scala.collection.Iterator;
import scala.runtime.AbstractPartialFunction;

/**
 * An optimizer rule, after all of Spark's: the part of a query that metadata answers is not read, nor what a small side
 * of a join leaves out (see SmallSides). The planner is asked where an aggregate, a limit, or an order with a limit is
 * over a self-pruning relation, with nothing but filters and projections between them. The files of that relation are
 * then settled, whether anything is gained or not: each scan is planned once, and the rule finds nothing more when it
 * runs again. The planner is not asked where any rows will do as the result: Spark stops as soon as it has them.
 */
public final class Shortcuts extends Rule {
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final SparkSession session;

  private Shortcuts(SparkSession session) {
    this.session = session;
  }

  /** Add the rule to those of a session, once. */
  public static void into(SparkSession session) throws ReflectiveOperationException {
    Object methods = Sources.call(session, "experimental");
    synchronized (Shortcuts.class) {
      Iterator known = ((scala.collection.Seq) Sources.call(methods, "extraOptimizations")).iterator();
      List rules = new ArrayList();
      while (known.hasNext()) {
        Object rule = known.next();
        if (rule instanceof Shortcuts) {
          return;
        }
        rules.add(rule);
      }
      rules.add(new Shortcuts(session));
      ((org.apache.spark.sql.ExperimentalMethods) methods).extraOptimizations_$eq(PythonUtils.toSeq(rules));
    }
  }

  public TreeNode apply(TreeNode plan) {
    boolean may =
        plan.containsPattern(TreePattern.LIMIT())
            || plan.containsPattern(TreePattern.AGGREGATE())
            || plan.containsPattern(TreePattern.JOIN())
            || plan.containsPattern(TreePattern.SCALAR_SUBQUERY());
    return may ? plan.transformUp(new Shortened(new SmallSides(session), taken((LogicalPlan) plan))) : plan;
  }

  /** The limit at the root of the plan: Spark reads a few files for it first, and more as long as rows are missing. */
  private static Object taken(LogicalPlan root) {
    return root instanceof GlobalLimit ? ((GlobalLimit) root).child() : null;
  }

  /** The node with less to read; itself where nothing is asked, or where asking fails. */
  private LogicalPlan shortened(LogicalPlan node, SmallSides small, Object taken) {
    try {
      if (node instanceof Aggregate) {
        return answered((Aggregate) node);
      } else if (node instanceof LocalLimit) {
        return first((LocalLimit) node, node == taken);
      }
      return node instanceof Join ? small.joined((Join) node) : small.filtered((Filter) node);
    } catch (Throwable error) {
      LOGGER.warn("nothing is answered beforehand: {}", error.toString());
      return node;
    }
  }

  private LogicalPlan answered(Aggregate node) throws IOException {
    Chain chain = Chain.of((LogicalPlan) node.child(), session);
    Aggregation aggregation = chain == null || chain.files() == null ? null : Aggregation.of(node, chain);
    return aggregation == null ? node : aggregation.over(chain.settled(aggregation.question()));
  }

  private LogicalPlan first(LocalLimit node, boolean taken) throws Throwable {
    LogicalPlan below = node.child();
    Sort sort = null;
    while (sort == null && (below instanceof Project || below instanceof Sort)) {
      sort = below instanceof Sort ? (Sort) below : null;
      below = (LogicalPlan) below.children().head();
    }
    Chain chain = Chain.of(sort == null ? node.child() : (LogicalPlan) sort.child(), session);
    Map question = chain == null ? null : rows(node, sort, chain);
    boolean anyRows = taken && sort == null && chain != null && chain.isOfAllRows();
    if (question == null || anyRows) {
      return node;
    }
    LogicalPlan found = chain.first(question, sort == null ? null : chain.attribute(order(sort).child()));
    Map replaced = new IdentityHashMap();
    replaced.put(chain.top, found);
    return (LogicalPlan) node.transformUp(new SmallSides.Replaced(replaced));
  }

  /** The question for a number of rows, in an order or in any; null where the number or the column is unknown. */
  private static Map rows(LocalLimit node, Sort sort, Chain chain) {
    if (!(node.limitExpr() instanceof Literal) || !(((Literal) node.limitExpr()).value() instanceof Integer)) {
      return null;
    }
    Map question = new HashMap();
    question.put("rows", ((Literal) node.limitExpr()).value());
    if (sort != null) {
      SortOrder order = order(sort);
      String column = order == null || !sort.global() ? null : chain.column(order.child());
      if (column == null) {
        return null;
      }
      question.put("column", column);
      question.put("descending", Boolean.valueOf(order.direction() == Descending$.MODULE$));
      question.put("nulls_first", Boolean.valueOf(order.nullOrdering() == NullsFirst$.MODULE$));
    }
    return question;
  }

  /** The first sort key; null if there is none. */
  private static SortOrder order(Sort sort) {
    return sort.order().isEmpty() ? null : (SortOrder) sort.order().head();
  }

  private final class Shortened extends AbstractPartialFunction {
    private final SmallSides small;
    private final Object taken;

    Shortened(SmallSides small, Object taken) {
      this.small = small;
      this.taken = taken;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof Aggregate
          || node instanceof LocalLimit
          || node instanceof Join
          || node instanceof Filter;
    }

    public Object apply(Object node) {
      return shortened((LogicalPlan) node, small, taken);
    }
  }
}
