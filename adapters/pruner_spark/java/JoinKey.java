package pruner.spark;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Decimal$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;
import pruner.spark.statements.Subqueries;
import scala.collection.Iterator;
import scala.collection.JavaConverters;

/**
 * A column of the large side of a join that must equal one of the small side: both uncast, or cast to a type that has
 * all of their values. Then they are equal exactly if they are the same number, whatever their own types are.
 */
final class JoinKey {
  /** Most values that are listed as literals; of more, Spark itself makes a set. */
  private static final int LISTED = 10;

  /** Ranges that are looked up instead of many keys. */
  private static final int RANGES = 16;

  final Attribute column;
  private final Attribute key;

  private JoinKey(Attribute column, Attribute key) {
    this.column = column;
    this.key = key;
  }

  /** The columns that a condition compares; null where it compares anything else, or not the values themselves. */
  static JoinKey of(EqualTo equal, LogicalPlan large, LogicalPlan small) {
    AttributeReference left = own(equal.left());
    AttributeReference right = own(equal.right());
    boolean known =
        left != null
            && right != null
            && equal.left().dataType().equals(equal.right().dataType())
            && Subqueries.isComparedAsItIs(equal.left().dataType());
    if (known && isOf(left, large) && isOf(right, small)) {
      return new JoinKey(left, right);
    }
    return known && isOf(right, large) && isOf(left, small) ? new JoinKey(right, left) : null;
  }

  private static boolean isOf(AttributeReference column, LogicalPlan side) {
    return side.outputSet().contains((NamedExpression) column);
  }

  /** The column behind an expression, uncast or with casts that change no value; null where it is not a column. */
  private static AttributeReference own(Expression expression) {
    Expression each = expression;
    while (each instanceof Cast && isWidened((Cast) each)) {
      each = ((Cast) each).child();
    }
    return each instanceof AttributeReference ? (AttributeReference) each : null;
  }

  /** Whether all numbers of the old type are numbers of the new one, so that no such cast fails or rounds. */
  private static boolean isWidened(Cast cast) {
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    if (isInteger(from) && isInteger(to)) {
      return from.defaultSize() <= to.defaultSize();
    }
    if (!(to instanceof DecimalType) || !(isInteger(from) || from instanceof DecimalType)) {
      return false;
    }
    int scale = from instanceof DecimalType ? ((DecimalType) from).scale() : 0;
    int whole = from instanceof DecimalType ? ((DecimalType) from).precision() - scale : digits(from);
    DecimalType wide = (DecimalType) to;
    return scale <= wide.scale() && whole <= wide.precision() - wide.scale();
  }

  private static boolean isInteger(DataType type) {
    return type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType;
  }

  /** The number of digits of the greatest value of an integer type. */
  private static int digits(DataType type) {
    return BigDecimal.valueOf(greatest(type)).precision();
  }

  private static long greatest(DataType type) {
    return Long.MAX_VALUE >> (8 * (8 - type.defaultSize()));
  }

  /**
   * A condition that holds for every row that is joined with one of the rows; null where there is none. For more than
   * `most` keys, it is about their ranges: each separate lookup takes time.
   */
  Expression among(LogicalPlan small, InternalRow[] rows, long most) {
    int place = index(small);
    DataType type = column.dataType();
    boolean same = key.dataType().equals(type);
    Set values = new HashSet();
    for (int k = 0; k < rows.length; k++) {
      Object value = rows[k].isNullAt(place) ? null : rows[k].get(place, key.dataType());
      if (value != null && !same) {
        if (type instanceof DecimalType && isBeyond(number(value), (DecimalType) type)) {
          return null;
        }
        value = exactly(value, type);
      }
      if (value != null) {
        // A text may share its row's memory.
        values.add(value instanceof UTF8String ? ((UTF8String) value).copy() : value);
      }
    }
    boolean ordered = !(type instanceof StringType) || type.equals(StringType$.MODULE$);
    if (values.size() > most && ordered) {
      return ranges(values.toArray());
    }
    if (values.isEmpty() || values.size() > LISTED) {
      return new InSet(column, JavaConverters.asScalaSet(values).toSet());
    }
    List literals = new ArrayList();
    Object[] each = values.toArray();
    for (int k = 0; k < each.length; k++) {
      literals.add(new Literal(each[k], type));
    }
    return new In(column, PythonUtils.toSeq(literals));
  }

  /** The ranges of keys between their widest gaps. */
  private Expression ranges(Object[] values) {
    Arrays.sort(values);
    double[] gaps = new double[values.length - 1];
    for (int k = 0; k < gaps.length; k++) {
      gaps[k] = gap(values[k], values[k + 1]);
    }
    double[] widest = (double[]) gaps.clone();
    Arrays.sort(widest);
    // Fewer gaps than ranges are wider than this one.
    double least = widest[Math.max(0, widest.length - RANGES)];
    Expression found = null;
    int first = 0;
    for (int k = 0; k < values.length; k++) {
      if (k == gaps.length || gaps[k] > least) {
        Expression range =
            new And(
                new GreaterThanOrEqual(column, new Literal(values[first], column.dataType())),
                new LessThanOrEqual(column, new Literal(values[k], column.dataType())));
        found = found == null ? range : new Or(found, range);
        first = k + 1;
      }
    }
    return found;
  }

  /** The distance between two keys; 0 for keys that are not numbers. */
  private static double gap(Object one, Object next) {
    if (one instanceof Decimal) {
      return ((Decimal) next).toDouble() - ((Decimal) one).toDouble();
    }
    return one instanceof Number ? ((Number) next).doubleValue() - ((Number) one).doubleValue() : 0.0;
  }

  private int index(LogicalPlan plan) {
    int place = 0;
    Iterator each = plan.output().iterator();
    while (each.hasNext() && !((Attribute) each.next()).exprId().equals(key.exprId())) {
      place++;
    }
    return place;
  }

  private static BigDecimal number(Object value) {
    return value instanceof Decimal
        ? ((Decimal) value).toJavaBigDecimal()
        : BigDecimal.valueOf(((Number) value).longValue());
  }

  /** Whether a number has more digits before the point than a decimal type: some files hold such values. */
  private static boolean isBeyond(BigDecimal number, DecimalType type) {
    return number.precision() - number.scale() > type.precision() - type.scale();
  }

  /** A number as a value of a type; null where the type has no such value, so that no row equals it. */
  private static Object exactly(Object value, DataType type) {
    if (type instanceof DecimalType) {
      BigDecimal number = number(value);
      Decimal made = Decimal$.MODULE$.apply(number);
      boolean fits = made.changePrecision(((DecimalType) type).precision(), ((DecimalType) type).scale());
      return fits && made.toJavaBigDecimal().compareTo(number) == 0 ? made : null;
    }
    long number;
    if (value instanceof Decimal) {
      BigDecimal exact = number(value);
      number = exact.longValue();
      if (exact.compareTo(BigDecimal.valueOf(number)) != 0) {
        return null;
      }
    } else {
      number = ((Number) value).longValue();
    }
    long most = greatest(type);
    return number > most || number < -most - 1L ? null : integer(number, type);
  }

  private static Object integer(long number, DataType type) {
    if (type instanceof LongType) {
      return Long.valueOf(number);
    } else if (type instanceof IntegerType) {
      return Integer.valueOf((int) number);
    }
    return type instanceof ShortType ? (Object) Short.valueOf((short) number) : (Object) Byte.valueOf((byte) number);
  }
}
