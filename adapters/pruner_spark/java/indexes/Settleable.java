package pruner.spark.indexes;

import pruner.spark.scans.Pruning;

/** An index whose files may be settled before a scan asks for them; of other formats that is their own business. */
public interface Settleable extends Listed {
  /** What settles them. */
  Pruning pruning();
}
