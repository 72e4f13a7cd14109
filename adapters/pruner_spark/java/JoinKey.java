package pruner.spark;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Decimal$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import pruner.spark.statements.Subqueries;
import scala.collection.Iterator;
import scala.collection.JavaConverters;

/**
 * A column of the large side of a join that has to equal one of the small side: both as they are, or cast to a type
 * that has all of their values. Then they are equal there if they are the same number, whatever their own types are.
 */
final class JoinKey {
  /** Values that are listed as literals; of more Spark itself makes a set. */
  private static final int LISTED = 10;

  final Attribute column;
  private final Attribute key;

  private JoinKey(Attribute column, Attribute key) {
    this.column = column;
    this.key = key;
  }

  /** What a condition compares; null where it is something else, or not known to compare the values as they are. */
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

  /** The column that an expression is, as it is or with casts that change no value; null where it is none. */
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

  /** The digits of the greatest number of a type of integers. */
  private static int digits(DataType type) {
    return BigDecimal.valueOf(greatest(type)).precision();
  }

  private static long greatest(DataType type) {
    return Long.MAX_VALUE >> (8 * (8 - type.defaultSize()));
  }

  /** A condition that holds of every row that is joined with one of the rows; null where that cannot be said. */
  Expression among(LogicalPlan small, InternalRow[] rows) {
    int place = index(small);
    DataType type = column.dataType();
    Set values = new HashSet();
    for (int k = 0; k < rows.length; k++) {
      Object value = rows[k].isNullAt(place) ? null : rows[k].copy().get(place, key.dataType());
      if (value != null && !key.dataType().equals(type)) {
        BigDecimal number = number(value);
        if (isBeyond(number, type)) {
          return null;
        }
        value = exactly(number, type);
      }
      if (value != null) {
        values.add(value);
      }
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

  /** Whether a number has more digits before the point than a type of decimals: some files hold such values. */
  private static boolean isBeyond(BigDecimal number, DataType type) {
    return type instanceof DecimalType
        && number.precision() - number.scale() > ((DecimalType) type).precision() - ((DecimalType) type).scale();
  }

  /** The value of a type that a number is; null where it has none, which no row equals. */
  private static Object exactly(BigDecimal number, DataType type) {
    if (type instanceof DecimalType) {
      Decimal value = Decimal$.MODULE$.apply(number);
      boolean fits = value.changePrecision(((DecimalType) type).precision(), ((DecimalType) type).scale());
      return fits && value.toJavaBigDecimal().compareTo(number) == 0 ? value : null;
    }
    long most = greatest(type);
    boolean whole = number.stripTrailingZeros().scale() <= 0;
    if (!whole
        || number.compareTo(BigDecimal.valueOf(most)) > 0
        || number.compareTo(BigDecimal.valueOf(-most - 1L)) < 0) {
      return null;
    }
    long value = number.longValue();
    if (type instanceof LongType) {
      return Long.valueOf(value);
    } else if (type instanceof IntegerType) {
      return Integer.valueOf((int) value);
    }
    return type instanceof ShortType ? (Object) Short.valueOf((short) value) : (Object) Byte.valueOf((byte) value);
  }
}
