package pruner.spark;

import java.util.concurrent.Callable;
import java.util.function.Function;

/** One call of the planner, made with the class loader of the thread that wants it. */
final class Call implements Callable {
  private final Function planner;
  private final Object argument;
  private final ClassLoader classes = Thread.currentThread().getContextClassLoader();

  Call(Function planner, Object argument) {
    this.planner = planner;
    this.argument = argument;
  }

  public Object call() {
    Thread.currentThread().setContextClassLoader(classes);
    return planner.apply(argument);
  }
}
