package pruner.spark.scans;

import java.util.HashMap;
import java.util.Map;

/** The slices of the planner's snapshot, by key. */
public final class Slices {
  private final Map ordinals;
  private final int count;

  /** One line for each slice in the order of the snapshot; an empty line is a slice that cannot be identified. */
  public Slices(String lines, int count) {
    String[] each = count == 0 ? new String[0] : lines.split("\n", -1);
    if (each.length != count) {
      throw new IllegalArgumentException(count + " slices were announced and " + each.length + " came");
    }
    this.count = count;
    ordinals = new HashMap(2 * count);
    for (int ordinal = 0; ordinal < count; ordinal++) {
      if (!each[ordinal].isEmpty() && ordinals.put(each[ordinal], Integer.valueOf(ordinal)) != null) {
        throw new IllegalArgumentException("two slices have the key " + each[ordinal]);
      }
    }
  }

  public int count() {
    return count;
  }

  /** The ordinal of the slice with that key, or -1. */
  public int ordinal(String key) {
    Object found = ordinals.get(key);
    return found == null ? -1 : ((Integer) found).intValue();
  }
}
