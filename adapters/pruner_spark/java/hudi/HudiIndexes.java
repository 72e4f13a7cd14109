package pruner.spark.hudi;

import org.apache.hudi.HoodieFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import pruner.spark.indexes.Indexes;
import pruner.spark.indexes.SliceKeys;
import pruner.spark.scans.Pruning;
import scala.Tuple2;
import scala.collection.immutable.Map;

/** Creates self-pruning file indexes over Hudi's. */
public final class HudiIndexes extends Indexes {
  private static final String SKIPPING = "hoodie.enable.data.skipping";

  /** Hudi's index with its own data skipping off, which lost rows in Hudi 1.2 (`upper(city) = …`). */
  public FileIndex pruned(FileIndex base, Pruning pruning) {
    HoodieFileIndex index = (HoodieFileIndex) base;
    Map options = (Map) index.options().$plus(new Tuple2(SKIPPING, "false"));
    return new PrunedHoodieFileIndex(index, options, pruning);
  }

  public SliceKeys keys() {
    return new HudiSliceKeys();
  }
}
