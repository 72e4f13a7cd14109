package pruner.spark.hudi;

import java.util.Iterator;
import java.util.TreeSet;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.HoodiePartitionFileSliceMapping;
import org.apache.hudi.common.fs.FSUtils;
import org.apache.hudi.common.model.FileSlice;
import org.apache.hudi.common.model.HoodieBaseFile;
import org.apache.hudi.common.model.HoodieLogFile;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import pruner.spark.indexes.SliceKeys;

/** Keys of Hudi's slices: slices with log files are passed in the values of the partition directory. */
public final class HudiSliceKeys extends SliceKeys {
  public String of(PartitionDirectory partition, FileStatusWithMetadata file) {
    Path path = file.getPath();
    if (!(partition.values() instanceof HoodiePartitionFileSliceMapping)) {
      return super.of(partition, file);
    }
    HoodiePartitionFileSliceMapping slices = (HoodiePartitionFileSliceMapping) partition.values();
    scala.Option found = slices.getSlice(FSUtils.getFileIdFromFileName(path.getName()));
    return found.isEmpty() ? super.of(partition, file) : of((FileSlice) found.get());
  }

  private static String of(FileSlice slice) {
    if (slice.hasBootstrapBase()) {
      return null;
    }
    TreeSet names = new TreeSet();
    long logSize = 0L;
    Iterator logs = slice.getLogFiles().iterator();
    while (logs.hasNext()) {
      HoodieLogFile log = (HoodieLogFile) logs.next();
      names.add(log.getFileName());
      logSize += log.getFileSize();
    }
    String joined = String.join("/", names);
    if (!slice.getBaseFile().isPresent()) {
      return key("", 0L, joined, logSize);
    }
    HoodieBaseFile base = (HoodieBaseFile) slice.getBaseFile().get();
    return key(place(new Path(base.getStoragePath().toUri())), base.getFileSize(), joined, logSize);
  }
}
