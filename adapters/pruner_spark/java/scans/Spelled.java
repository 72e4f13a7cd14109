package pruner.spark.scans;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.LikeAll;
import org.apache.spark.sql.catalyst.expressions.LikeAny;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.NotLikeAll;
import org.apache.spark.sql.catalyst.expressions.NotLikeAny;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Conditions on constant rows, arrays and patterns, spelled out as conditions on columns, about which the planner knows
 * more: `(a, b) IN ((1, 2), (3, 4))`, equality of structs, `array_contains(array(1, 2), a)`,
 * `a LIKE ANY ('x%', 'y%')`. Each is true, false and NULL where the original is.
 */
public final class Spelled extends AbstractPartialFunction {
  private static final int MOST = 256;

  private Spelled() {}

  public static Expression of(Expression predicate) {
    return predicate == null ? null : (Expression) predicate.transformUp(new Spelled());
  }

  public boolean isDefinedAt(Object node) {
    return spelled(node) != null;
  }

  public Object apply(Object node) {
    return spelled(node);
  }

  private static Expression spelled(Object node) {
    if (node instanceof EqualTo) {
      return sameRow(((EqualTo) node).left(), ((EqualTo) node).right());
    }
    if (node instanceof EqualNullSafe) {
      return sameRow(((EqualNullSafe) node).left(), ((EqualNullSafe) node).right());
    }
    if (node instanceof In) {
      In in = (In) node;
      return in.value() instanceof CreateNamedStruct ? oneOf(in.value(), listed(in.list())) : null;
    }
    if (node instanceof InSet) {
      InSet in = (InSet) node;
      return in.child() instanceof CreateNamedStruct ? oneOf(in.child(), held(in)) : null;
    }
    if (node instanceof ArrayContains) {
      return contained(((ArrayContains) node).left(), ((ArrayContains) node).right());
    }
    return node instanceof Expression ? patterns((Expression) node) : null;
  }

  private static Expression patterns(Expression node) {
    if (node instanceof LikeAny) {
      return likes(((LikeAny) node).child(), ((LikeAny) node).patterns(), false, false);
    }
    if (node instanceof LikeAll) {
      return likes(((LikeAll) node).child(), ((LikeAll) node).patterns(), true, false);
    }
    if (node instanceof NotLikeAny) {
      return likes(((NotLikeAny) node).child(), ((NotLikeAny) node).patterns(), false, true);
    }
    if (node instanceof NotLikeAll) {
      return likes(((NotLikeAll) node).child(), ((NotLikeAll) node).patterns(), true, true);
    }
    return null;
  }

  private static Expression likes(
      Expression text, scala.collection.Seq patterns, boolean all, boolean negated) {
    List parts = new ArrayList();
    Iterator each = JavaConverters.seqAsJavaList(patterns).iterator();
    while (each.hasNext()) {
      Expression like = new Like(text, new Literal(each.next(), text.dataType()), '\\');
      parts.add(negated ? new Not(like) : like);
    }
    return joined(parts, all);
  }

  /** Rows of constants: none is NULL, though a field may be. Inside rows, NULL equals NULL. */
  private static Expression sameRow(Expression left, Expression right) {
    boolean mirrored = right instanceof CreateNamedStruct;
    Expression row = mirrored ? right : left;
    Expression constant = mirrored ? left : right;
    if (!(row instanceof CreateNamedStruct && constant instanceof Literal)) {
      return null;
    }
    List one = new ArrayList();
    one.add(((Literal) constant).value());
    return constant.dataType() instanceof StructType && alike(row, (StructType) constant.dataType())
        ? oneOf(row, one)
        : null;
  }

  private static boolean alike(Expression row, StructType constant) {
    StructType own = (StructType) row.dataType();
    boolean alike = own.length() == constant.length();
    for (int k = 0; alike && k < own.length(); k++) {
      alike = own.apply(k).dataType().equals(constant.apply(k).dataType());
    }
    return alike;
  }

  private static List listed(scala.collection.Seq options) {
    List rows = new ArrayList();
    Iterator each = JavaConverters.seqAsJavaList(options).iterator();
    while (each.hasNext()) {
      Object option = each.next();
      rows.add(option instanceof Literal ? ((Literal) option).value() : null);
    }
    return rows;
  }

  private static List held(InSet in) {
    return new ArrayList(JavaConverters.setAsJavaSet(in.hset()));
  }

  private static Expression oneOf(Expression row, List rows) {
    if (rows.isEmpty() || rows.size() > MOST) {
      return null;
    }
    List values = JavaConverters.seqAsJavaList(((CreateNamedStruct) row).valExprs());
    List same = new ArrayList();
    for (int k = 0; k < rows.size(); k++) {
      if (!(rows.get(k) instanceof InternalRow)) {
        return null;
      }
      List fields = new ArrayList();
      for (int at = 0; at < values.size(); at++) {
        Expression value = (Expression) values.get(at);
        DataType type = value.dataType();
        fields.add(new EqualNullSafe(value, new Literal(((InternalRow) rows.get(k)).get(at, type), type)));
      }
      same.add(joined(fields, true));
    }
    return joined(same, false);
  }

  private static Expression contained(Expression array, Expression value) {
    Object data = array instanceof Literal ? ((Literal) array).value() : null;
    if (!(data instanceof ArrayData)) {
      return null;
    }
    DataType type = ((ArrayType) array.dataType()).elementType();
    int size = ((ArrayData) data).numElements();
    if (size == 0 || size > MOST || !type.equals(value.dataType())) {
      return null;
    }
    List options = new ArrayList();
    for (int k = 0; k < size; k++) {
      Object option = ((ArrayData) data).isNullAt(k) ? null : ((ArrayData) data).get(k, type);
      options.add(new Literal(option, type));
    }
    return new In(value, JavaConverters.asScalaBuffer(options).toList());
  }

  private static Expression joined(List parts, boolean all) {
    if (parts.isEmpty() || parts.size() > MOST) {
      return null;
    }
    Expression whole = (Expression) parts.get(0);
    for (int k = 1; k < parts.size(); k++) {
      Expression next = (Expression) parts.get(k);
      whole = all ? (Expression) new And(whole, next) : new Or(whole, next);
    }
    return whole;
  }
}
