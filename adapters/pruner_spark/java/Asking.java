package pruner.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * What is asked of a scan besides which files to read: `question` goes to the planner as JSON, and `beyond` is what its
 * filters demand of the rows of the files that are listed (null for nothing): filters on partitions alone hold there.
 */
final class Asking {
  final Map question;
  final Expression beyond;

  Asking(Map question, Expression beyond) {
    this.question = question;
    this.beyond = beyond;
  }
}
