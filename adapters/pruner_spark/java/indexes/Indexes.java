package pruner.spark.indexes;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import pruner.spark.scans.Pruning;

/** Makes the file indexes that prune themselves over plain files. */
public class Indexes {
  private static final String HUDI = "org.apache.hudi.HoodieFileIndex";
  private static final String DELTA = "org.apache.spark.sql.delta.files.TahoeLogFileIndex";

  /** What makes them over an index; classes are named in texts that cannot be compiled where Hudi or Delta is not. */
  public static Indexes over(FileIndex base) throws ReflectiveOperationException {
    String kind = base.getClass().getName();
    String maker = kind.equals(HUDI) ? "hudi.HudiIndexes" : kind.equals(DELTA) ? "delta.DeltaIndexes" : "indexes.Indexes";
    Class found = Indexes.class.getClassLoader().loadClass("pruner.spark." + maker);
    return (Indexes) found.getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
  }

  /** The index over one that Spark resolved, of the class that Spark's optimizer looks for. */
  public FileIndex pruned(FileIndex base, Pruning pruning) {
    if (base instanceof CatalogFileIndex) {
      return new PrunedCatalogFileIndex((CatalogFileIndex) base, pruning);
    }
    return new PrunedInMemoryFileIndex((InMemoryFileIndex) base, pruning);
  }

  /** Options by which a relation of a session is found again when its scan is pruned; none for most. */
  public void mark(SparkSession session, Pruning pruning, Map options) {}

  public SliceKeys keys() {
    return new SliceKeys();
  }
}
