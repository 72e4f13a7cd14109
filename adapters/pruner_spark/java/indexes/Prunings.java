package pruner.spark.indexes;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import pruner.spark.scans.Pruning;

/** The prunings of a session's relations that name theirs in an option, as others create their scans. */
public final class Prunings {
  public static final String OPTION = "pruner.relation";

  private static final int REMEMBERED = 4096;
  private static final Logger LOGGER = LoggerFactory.getLogger("pruner");

  private final Map prunings = new LinkedHashMap();

  /** Returns the name under which a pruning is remembered; the oldest ones are forgotten, and run unpruned. */
  public synchronized String remember(Pruning pruning) {
    String name = pruning.name();
    prunings.remove(name);
    prunings.put(name, pruning);
    if (prunings.size() > REMEMBERED) {
      Iterator oldest = prunings.keySet().iterator();
      oldest.next();
      oldest.remove();
    }
    return name;
  }

  /** The pruning of that name; null where it was forgotten. */
  public synchronized Pruning remembered(Object name) {
    Pruning found = (Pruning) prunings.get(name);
    if (found == null) {
      LOGGER.warn("a scan is not pruned: its relation was forgotten, as many others were read since");
    }
    return found;
  }
}
