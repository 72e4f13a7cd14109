package pruner.spark.scans;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.function.BiFunction;

/** One call of the planner, made with the class loader of the requesting thread. */
public final class Call implements Callable {
  private final BiFunction planner;
  private final Scan scan;
  private final String failure;
  private final ClassLoader classes = Thread.currentThread().getContextClassLoader();

  /** A scan that needs a plan. */
  public Call(BiFunction planner, Scan scan) {
    this.planner = planner;
    this.scan = scan;
    failure = null;
  }

  /** A scan without a plan: its head (see Scan) and the reason, which is empty if there was no file to plan for. */
  public Call(BiFunction planner, String failure) {
    this.planner = planner;
    scan = null;
    this.failure = failure;
  }

  public Object call() throws IOException {
    Thread.currentThread().setContextClassLoader(classes);
    return planner.apply(scan, scan == null ? failure : scan.head() + scan.asked());
  }
}
