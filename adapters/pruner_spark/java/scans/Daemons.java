package pruner.spark.scans;

import java.util.concurrent.ThreadFactory;

/** Creates threads that do not keep Spark from exiting. */
public final class Daemons implements ThreadFactory {
  public Thread newThread(Runnable work) {
    Thread thread = new Thread(work, "pruner");
    thread.setDaemon(true);
    return thread;
  }
}
