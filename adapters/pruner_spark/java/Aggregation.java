package pruner.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import pruner.spark.indexes.Settled;
import pruner.spark.statements.Names;
import pruner.spark.statements.Subqueries;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * An aggregate that metadata may answer in part: counts of rows and of values, minima, maxima and distinct values, over
 * all rows or by one column. It becomes an aggregate of two parts: rows of constants, and the same aggregate over the
 * files that are left. Its output keeps names and types, as each call is replaced in place.
 */
final class Aggregation {
  private final Aggregate node;
  private final Chain chain;
  private final AttributeReference group;
  private final List calls = new ArrayList();
  private final List kinds = new ArrayList();
  private final List columns = new ArrayList();

  private Aggregation(Aggregate node, Chain chain, AttributeReference group) {
    this.node = node;
    this.chain = chain;
    this.group = group;
  }

  /** Null where the aggregate is of another kind. */
  static Aggregation of(Aggregate node, Chain chain) {
    scala.collection.Seq groups = node.groupingExpressions();
    if (groups.size() > 1) {
      return null;
    }
    Expression key = groups.isEmpty() ? null : (Expression) groups.head();
    if (key != null && chain.column(key) == null) {
      return null;
    }
    Aggregation made = new Aggregation(node, chain, (AttributeReference) key);
    Iterator each = node.aggregateExpressions().iterator();
    while (each.hasNext()) {
      if (!made.take((Expression) each.next())) {
        return null;
      }
    }
    return key == null && made.calls.isEmpty() ? null : made;
  }

  /** Collect the calls in an output expression; false where it needs more than calls and the group. */
  private boolean take(Expression part) {
    if (part instanceof AggregateExpression) {
      return call((AggregateExpression) part);
    }
    if (part instanceof Attribute) {
      return group != null && group.semanticEquals(part);
    }
    if (!part.deterministic() || part.containsPattern(TreePattern.PLAN_EXPRESSION())) {
      return false;
    }
    Iterator each = part.children().iterator();
    while (each.hasNext()) {
      if (!take((Expression) each.next())) {
        return false;
      }
    }
    return true;
  }

  private boolean call(AggregateExpression call) {
    if (call.filter().isDefined() || call.mode() != Complete$.MODULE$) {
      return false;
    }
    AggregateFunction function = call.aggregateFunction();
    if (function.children().size() != 1) {
      return false;
    }
    Expression argument = (Expression) function.children().head();
    String column = chain.column(argument);
    boolean ofRows = argument instanceof Literal && ((Literal) argument).value() != null;
    if (function instanceof Count && call.isDistinct()) {
      // With other calls, the distinct values would have to be joined with their results.
      return column != null && group == null && calls.isEmpty() && add(call, "distinct", column);
    }
    if (kinds.contains("distinct") || call.isDistinct()) {
      return false;
    }
    if (function instanceof Count) {
      return (ofRows || column != null) && add(call, "count", column);
    }
    boolean extreme = function instanceof Max || function instanceof Min;
    return extreme && column != null && add(call, function instanceof Max ? "max" : "min", column);
  }

  private boolean add(AggregateExpression call, String kind, String column) {
    calls.add(call);
    kinds.add(kind);
    columns.add(column);
    return true;
  }

  /** The question for the planner. */
  Map question() {
    List asked = new ArrayList();
    for (int k = 0; k < kinds.size(); k++) {
      asked.add(Arrays.asList(new Object[] {kinds.get(k), columns.get(k)}));
    }
    Map question = new HashMap();
    question.put("aggregates", asked);
    question.put("group", group == null ? null : chain.column(group));
    return question;
  }

  /** The aggregate over the files that are left, and over what is proved about the others. */
  LogicalPlan over(Settled files) throws IOException {
    LogicalPlan rest = chain.over(chain.files().over(files));
    if (files.answer() == null) {
      return aggregate(node.groupingExpressions(), node.aggregateExpressions(), rest);
    }
    JsonNode answer = new ObjectMapper().readTree(files.answer());
    List output = output();
    List rows = rows(answer, output);
    LogicalPlan proved = local(output, rows);
    if (!files.isEmpty()) {
      LogicalPlan read = aggregate(node.groupingExpressions(), read(), rest);
      if (kinds.contains("distinct")) {
        Expression value = (Expression) chain(0);
        read = aggregate(PythonUtils.toSeq(list(value)), PythonUtils.toSeq(list(value)), rest);
      }
      return together(output, new Union(PythonUtils.toSeq(list(proved, read)), false, false));
    }
    return kinds.contains("distinct") ? together(output, proved) : shown(output, proved);
  }

  /** The argument of a call. */
  private Object chain(int number) {
    return ((AggregateExpression) calls.get(number)).aggregateFunction().children().head();
  }

  /** The columns of the two parts: the group, and one for each call. */
  private List output() {
    List output = new ArrayList();
    if (group != null) {
      output.add(group.newInstance());
    }
    for (int k = 0; k < calls.size(); k++) {
      boolean counts = kinds.get(k).equals("count");
      DataType type = counts ? LongType$.MODULE$ : ((Expression) chain(k)).dataType();
      output.add(((Attribute) Names.alias(new Literal(null, type), "pruner_" + k).toAttribute()));
    }
    return output;
  }

  private List rows(JsonNode answer, List output) {
    List rows = new ArrayList();
    if (group == null && !kinds.contains("distinct")) {
      JsonNode told = (JsonNode) answer.path("values");
      Object[] values = new Object[output.size()];
      for (int k = 0; k < values.length; k++) {
        values[k] = value((JsonNode) told.path(k), ((Attribute) output.get(k)).dataType());
      }
      rows.add(new GenericInternalRow(values));
      return rows;
    }
    JsonNode groups = (JsonNode) answer.path("groups");
    JsonNode found = (JsonNode) answer.path("calls");
    for (int row = 0; row < groups.size(); row++) {
      Object[] values = new Object[output.size()];
      values[0] = value((JsonNode) groups.path(row), ((Attribute) output.get(0)).dataType());
      for (int k = 1; k < values.length; k++) {
        JsonNode of = (JsonNode) found.path(k - 1);
        values[k] = value((JsonNode) of.path(row), ((Attribute) output.get(k)).dataType());
      }
      rows.add(new GenericInternalRow(values));
    }
    return rows;
  }

  /** The output of the aggregate over the files that are left: the group, and each call by itself. */
  private scala.collection.Seq read() {
    List shown = new ArrayList();
    if (group != null) {
      shown.add(group);
    }
    for (int k = 0; k < calls.size(); k++) {
      shown.add(Names.alias((Expression) calls.get(k), "pruner_" + k));
    }
    return PythonUtils.toSeq(shown);
  }

  /** The final aggregate over the parts, with the output of the original one. */
  private LogicalPlan together(List output, LogicalPlan parts) {
    Map calls = new IdentityHashMap();
    int first = group == null ? 0 : 1;
    for (int k = 0; k < this.calls.size(); k++) {
      calls.put(this.calls.get(k), merged((String) kinds.get(k), (Expression) output.get(first + k)));
    }
    List groups = new ArrayList();
    if (group != null) {
      groups.add(output.get(0));
    }
    return aggregate(PythonUtils.toSeq(groups), replaced(calls, output), parts);
  }

  private static Expression merged(String kind, Expression part) {
    if (kind.equals("count")) {
      Expression sum = new Sum(part).toAggregateExpression();
      return new Coalesce(PythonUtils.toSeq(list(sum, new Literal(Long.valueOf(0L), LongType$.MODULE$))));
    }
    if (kind.equals("distinct")) {
      return new Count(PythonUtils.toSeq(list(part))).toAggregateExpression(true, scala.Option.apply(null));
    }
    AggregateFunction function = kind.equals("max") ? (AggregateFunction) new Max(part) : new Min(part);
    return function.toAggregateExpression();
  }

  /** The output of rows that are all known, each of which is a group of its own. */
  private LogicalPlan shown(List output, LogicalPlan proved) {
    Map calls = new IdentityHashMap();
    int first = group == null ? 0 : 1;
    for (int k = 0; k < this.calls.size(); k++) {
      Expression part = (Expression) output.get(first + k);
      Object zero = new Literal(Long.valueOf(0L), LongType$.MODULE$);
      boolean counts = kinds.get(k).equals("count");
      calls.put(this.calls.get(k), counts ? new Coalesce(PythonUtils.toSeq(list(part, zero))) : part);
    }
    LogicalPlan project = new Project(($SEQ$) replaced(calls, output), proved);
    return (LogicalPlan) ConvertToLocalRelation$.MODULE$.apply(project);
  }

  /** The output, with its calls and its group replaced, under the same names and identities. */
  private scala.collection.Seq replaced(Map calls, List output) {
    List shown = new ArrayList();
    Replacing replacing = new Replacing(calls, group, group == null ? null : output.get(0));
    Iterator each = node.aggregateExpressions().iterator();
    while (each.hasNext()) {
      NamedExpression old = (NamedExpression) each.next();
      Expression made = (Expression) ((Expression) old).transformDown(replacing);
      shown.add(old instanceof Attribute ? Names.alias(made, (Attribute) old) : made);
    }
    return PythonUtils.toSeq(shown);
  }

  private LogicalPlan aggregate(Object groups, Object shown, LogicalPlan child) {
    Object[] parts = new Object[node.productArity()];
    for (int k = 0; k < parts.length; k++) {
      parts[k] = node.productElement(k);
    }
    parts[0] = groups;
    parts[1] = shown;
    parts[2] = child;
    return (LogicalPlan) node.makeCopy(parts);
  }

  private static LogicalPlan local(List output, List rows) {
    return Subqueries.local(PythonUtils.toSeq(output), rows);
  }

  private static List list(Object... each) {
    return new ArrayList(Arrays.asList(each));
  }

  /** A value in Spark's internal form. */
  static Object value(JsonNode told, DataType type) {
    if (told.isNull()) {
      return null;
    }
    String text = told.asText();
    if (type instanceof StringType) {
      return UTF8String.fromString(text);
    } else if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
      return Long.valueOf(text);
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return Integer.valueOf(text);
    } else if (type instanceof ShortType) {
      return Short.valueOf(text);
    } else if (type instanceof ByteType) {
      return Byte.valueOf(text);
    } else if (type instanceof BooleanType) {
      return Boolean.valueOf(text);
    } else if (type instanceof DoubleType) {
      return Double.valueOf(text);
    } else if (type instanceof FloatType) {
      return Float.valueOf(text);
    } else if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return Decimal$.MODULE$.apply(new scala.math.BigDecimal(new BigDecimal(text)), decimal.precision(), decimal.scale());
    }
    throw new IllegalArgumentException("values of the type " + type);
  }

  private static final class Replacing extends AbstractPartialFunction {
    private final Map calls;
    private final AttributeReference group;
    private final Object other;

    Replacing(Map calls, AttributeReference group, Object other) {
      this.calls = calls;
      this.group = group;
      this.other = other;
    }

    public boolean isDefinedAt(Object node) {
      return calls.containsKey(node) || (group != null && node instanceof Attribute && group.semanticEquals((Expression) node));
    }

    public Object apply(Object node) {
      Object call = calls.get(node);
      return call == null ? other : call;
    }
  }
}
