package pruner.spark.scans;

/** The files that are left of a scan, which was planned while the query was optimized. */
public final class Settled {
  private final long number;
  private final $SEQ$ files;
  private final String answer;

  Settled(long number, $SEQ$ files, String answer) {
    this.number = number;
    this.files = files;
    this.answer = answer;
  }

  /** The number of the scan. */
  public long number() {
    return number;
  }

  public $SEQ$ files() {
    return files;
  }

  /** What is proved of the rows of all other files, as JSON; null where nothing is. */
  public String answer() {
    return answer;
  }
}
