package pruner.spark.indexes;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import pruner.spark.scans.Pruning;

/** Creates self-pruning file indexes over plain files. */
public class Indexes {
  private static final String HUDI = "org.apache.hudi.HoodieFileIndex";
  private static final String DELTA = "org.apache.spark.sql.delta.files.TahoeLogFileIndex";

  /** The creator for an index; classes that cannot be compiled without Hudi or Delta are named as text. */
  public static Indexes over(FileIndex base) throws ReflectiveOperationException {
    String kind = base.getClass().getName();
    String maker = kind.equals(HUDI) ? "hudi.HudiIndexes" : kind.equals(DELTA) ? "delta.DeltaIndexes" : "indexes.Indexes";
    Class found = Indexes.class.getClassLoader().loadClass("pruner.spark." + maker);
    return (Indexes) found.getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
  }

  /** Wraps an index that Spark resolved, in the class that Spark's optimizer looks for. */
  public FileIndex pruned(FileIndex base, Pruning pruning) {
    if (base instanceof CatalogFileIndex) {
      return new PrunedCatalogFileIndex((CatalogFileIndex) base, pruning);
    }
    return new PrunedInMemoryFileIndex((InMemoryFileIndex) base, pruning);
  }

  /** Adds options by which a relation of a session is found again when its scan is pruned; none for most. */
  public void mark(SparkSession session, Pruning pruning, Map options) {}

  public SliceKeys keys() {
    return new SliceKeys();
  }
}
