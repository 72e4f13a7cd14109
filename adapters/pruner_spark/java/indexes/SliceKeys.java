package pruner.spark.indexes;

import java.net.URI;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

/**
 * Keys that identify a slice: the path of its base file, its size, the names of its log files and their total size.
 * `pruner_spark.relations.relation` writes the same keys for the planner's snapshot.
 */
public class SliceKeys {
  /** The key of the slice that is read where Spark lists this file; null where it is unknown. */
  public String of(PartitionDirectory partition, FileStatusWithMetadata file) {
    return key(place(file.getPath()), file.getLen(), "", 0L);
  }

  protected static String key(String base, long size, String logs, long logSize) {
    return base + "\t" + size + "\t" + logs + "\t" + logSize;
  }

  /** The canonical spelling of a location: an absolute path for local ones, else scheme://bucket/path. */
  public static String place(Path path) {
    URI uri = path.toUri();
    String scheme = uri.getScheme();
    if (scheme == null || scheme.equals("file")) {
      return uri.getPath();
    }
    String spelling = scheme.equals("s3a") || scheme.equals("s3n") ? "s3" : scheme;
    String authority = uri.getAuthority();
    return spelling + "://" + (authority == null ? "" : authority) + uri.getPath();
  }
}
