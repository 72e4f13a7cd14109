package pruner.spark;

/** Tells the planner why a scan ran unpruned although it had been asked. */
public final class Failure {
  private final String head;

  Failure(String head) {
    this.head = head;
  }

  /** As in Scan, and the reason. */
  public String head() {
    return head;
  }
}
