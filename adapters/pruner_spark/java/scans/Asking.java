package pruner.spark.scans;

import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * What is asked about a scan besides which files to read: `question` goes to the planner as JSON, and `beyond` is what
 * its filters demand of the rows of the listed files (null for nothing), where filters on partitions alone hold anyway.
 */
public final class Asking {
  public final Map question;
  public final Expression beyond;

  public Asking(Map question, Expression beyond) {
    this.question = question;
    this.beyond = beyond;
  }
}
