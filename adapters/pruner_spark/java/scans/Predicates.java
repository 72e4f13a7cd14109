package pruner.spark.scans;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.Iterator;
import scala.collection.JavaConverters;

/** The filters of a scan, combined and compared. */
public final class Predicates {
  private Predicates() {}

  /** One expression, as shallow as possible so that no stack grows with it; null without filters. */
  public static Expression all(scala.collection.Seq partitionFilters, scala.collection.Seq dataFilters) {
    List filters = new ArrayList();
    add(filters, partitionFilters);
    add(filters, dataFilters);
    return filters.isEmpty() ? null : conjunction(filters);
  }

  private static void add(List filters, scala.collection.Seq more) {
    Iterator each = more.iterator();
    while (each.hasNext()) {
      Expression filter = (Expression) each.next();
      if (!aboutFiles(filter)) {
        filters.add(filter);
      }
    }
  }

  /** AND of expressions, at least one. */
  public static Expression conjunction(List filters) {
    int size = filters.size();
    if (size == 1) {
      return (Expression) filters.get(0);
    }
    Expression left = conjunction(filters.subList(0, size / 2));
    return new And(left, conjunction(filters.subList(size / 2, size)));
  }

  /** Whether all conditions are among the others. */
  public static boolean areAmong(List conditions, List others) {
    return without(JavaConverters.asScalaIterator(conditions.iterator()), others).isEmpty();
  }

  /** The conditions that are not among the others. */
  public static List without(Iterator conditions, List others) {
    List found = new ArrayList();
    while (conditions.hasNext()) {
      Expression condition = (Expression) conditions.next();
      if (!isAmong(condition, JavaConverters.asScalaIterator(others.iterator()))) {
        found.add(condition);
      }
    }
    return found;
  }

  /** Whether one of the others is semantically equal to the condition. */
  private static boolean isAmong(Expression condition, Iterator others) {
    while (others.hasNext()) {
      if (((Expression) others.next()).semanticEquals(condition)) {
        return true;
      }
    }
    return false;
  }

  /**
   * `_metadata.file_name` and the like: a column of the table can have the same name. Hudi also marks its meta columns
   * in this way, but its files hold them.
   */
  private static boolean aboutFiles(Expression filter) {
    Iterator each = filter.references().iterator();
    while (each.hasNext()) {
      Attribute attribute = (Attribute) each.next();
      if (attribute.metadata().contains("__metadata_col") && !isHudis(attribute)) {
        return true;
      }
    }
    return false;
  }

  private static boolean isHudis(Attribute attribute) {
    return attribute.name().startsWith("_hoodie_")
        && !attribute.metadata().contains("__file_source_metadata_col");
  }
}
