package pruner.spark;

/** Tells the planner why a scan ran unpruned although it had been asked. */
public final class Failure {
  private final String table;
  private final String reason;

  Failure(String table, String reason) {
    this.table = table;
    this.reason = reason;
  }

  /** The relation's name with the planner, and the reason. */
  public String head() {
    return table + "\t" + reason;
  }
}
