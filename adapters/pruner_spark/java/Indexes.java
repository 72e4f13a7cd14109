package pruner.spark;

import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;

/** Makes the file indexes that prune themselves over plain files. */
class Indexes {
  /** The index over one that Spark resolved, of the class that Spark's optimizer looks for. */
  FileIndex pruned(FileIndex base, Pruning pruning) {
    if (base instanceof CatalogFileIndex) {
      return new PrunedCatalogFileIndex((CatalogFileIndex) base, pruning);
    }
    return new PrunedInMemoryFileIndex((InMemoryFileIndex) base, pruning);
  }

  SliceKeys keys() {
    return new SliceKeys();
  }
}
