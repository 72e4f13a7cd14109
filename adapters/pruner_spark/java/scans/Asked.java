package pruner.spark.scans;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import pruner.spark.statements.Json;
import pruner.spark.statements.Sources;

/** What the planner must know about a scan, or about a session, as JSON: one call for all of it. */
public final class Asked {
  private static final int MOST_CHARACTERS = 64 * 1024 * 1024;
  private static final int MOST_OPTIONS = 1000;
  private static final String THRESHOLD = "spark.sql.optimizer.inSetConversionThreshold";

  private Asked() {}

  /**
   * `question` is what is asked besides which files to read, or null: see Shortcuts. `told` is what a scan reports
   * about itself, such as its version, or null.
   */
  public static String of(SparkSession reader, Expression predicate, Map question, Map told) throws IOException {
    Map found = settings(reader);
    if (told != null) {
      found.putAll(told);
    }
    if (predicate != null && isLight(predicate, Integer.parseInt((String) found.get("list_threshold")))) {
      String json = predicate.toJSON();
      if (json.length() <= MOST_CHARACTERS) {
        found.put("expression", json);
        found.put("columns", DataTypeUtils.fromAttributes(predicate.references().toSeq()).json());
      }
    }
    if (question != null) {
      found.put("question", question);
    }
    return Json.of(found);
  }

  /** Whether its JSON stays small: subqueries, CASE and long lists of expressions are examined one by one. */
  private static boolean isLight(Expression predicate, int threshold) {
    return !predicate.containsPattern(TreePattern.PLAN_EXPRESSION())
        && !predicate.containsPattern(TreePattern.CASE_WHEN())
        && (threshold <= MOST_OPTIONS || !predicate.containsPattern(TreePattern.IN()));
  }

  /** The settings that `pruner_spark.session` reads. From Spark 4 on, a session has its state in a subclass. */
  public static Map settings(SparkSession session) {
    SQLConf conf = ((SessionState) Sources.call(session, "sessionState")).conf();
    Map found = new LinkedHashMap();
    found.put("version", session.version());
    found.put("zone", conf.sessionLocalTimeZone());
    found.put("ansi", Boolean.valueOf(conf.ansiEnabled()));
    found.put("case_sensitive", Boolean.valueOf(conf.caseSensitiveAnalysis()));
    found.put("collation", conf.getConfString("spark.sql.session.collation.default", "UTF8_BINARY"));
    found.put("by_field_id", Boolean.valueOf(conf.parquetFieldIdReadEnabled()));
    found.put("list_threshold", conf.getConfString(THRESHOLD, "10"));
    return found;
  }
}
