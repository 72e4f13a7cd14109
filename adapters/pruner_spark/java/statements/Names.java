package pruner.spark.statements;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import scala.collection.JavaConverters;

/** Names for expressions. */
public final class Names {
  private Names() {}

  public static Alias alias(Expression expression, String name) {
    return alias(expression, name, NamedExpression$.MODULE$.newExprId(), none(), null);
  }

  /** An expression that replaces an attribute, under its identity, by which others refer to it. */
  public static Alias alias(Expression expression, Attribute old) {
    Object qualifier = old.qualifier().toList();
    return alias(expression, old.name(), old.exprId(), (scala.collection.immutable.List) qualifier, old.metadata());
  }

  private static Alias alias(
      Expression expression,
      String name,
      ExprId id,
      scala.collection.immutable.List qualifier,
      Object metadata) {
    return new Alias(expression, name, id, qualifier, scala.Option.apply(metadata), none());
  }

  private static scala.collection.immutable.List none() {
    return JavaConverters.asScalaBuffer(new ArrayList()).toList();
  }
}
