package pruner.spark.statements;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.FileTable;
import pruner.spark.iceberg.IcebergTables;
import pruner.spark.indexes.SliceKeys;
import scala.collection.Iterator;

/** The description of a leaf that scans files, as `pruner_spark.formats` reads it. */
public final class Description {
  private static final String[] OPTIONS = {
    "datetimeRebaseMode", "int96RebaseMode", "as.of.instant", "hoodie.enable.data.skipping"
  };

  private Description() {}

  public static Map of(Object leaf) {
    Map found = new LinkedHashMap();
    if (leaf instanceof DataSourceV2Relation && IcebergTables.isOne(((DataSourceV2Relation) leaf).table())) {
      IcebergTables.describe((DataSourceV2Relation) leaf, found);
      return found;
    }
    if (leaf instanceof DataSourceV2Relation) {
      FileTable table = (FileTable) ((DataSourceV2Relation) leaf).table();
      describe(table.fileIndex(), found);
      found.put("index", table.getClass().getName());
      return found;
    }
    LogicalRelation logical = (LogicalRelation) leaf;
    HadoopFsRelation relation = (HadoopFsRelation) logical.relation();
    describe(relation.location(), found);
    found.put("names", names(logical.catalogTable()));
    found.put("format", relation.fileFormat().getClass().getName());
    found.put("format_name", relation.fileFormat().toString());
    found.put("data_schema", relation.dataSchema().json());
    found.put("partition_schema", relation.partitionSchema().json());
    // In Spark 4, it is in a subclass of the type that a relation declares.
    found.put("reader", Sources.call(relation.sparkSession(), "sessionUUID"));
    found.put("options", options(relation.options()));
    return found;
  }

  private static void describe(FileIndex index, Map found) {
    List roots = new ArrayList();
    Iterator paths = index.rootPaths().iterator();
    while (paths.hasNext()) {
      roots.add(SliceKeys.place((Path) paths.next()));
    }
    found.put("index", index.getClass().getName());
    found.put("roots", roots);
    Object kind = Sources.call(index, "getQueryType");
    found.put("query_type", kind == null ? null : kind.toString());
    found.put("hudi_indexes", hudiIndexes(index));
  }

  /** The partitions of Hudi's metadata table; none for other indexes. */
  private static List hudiIndexes(FileIndex index) {
    Object client = Sources.call(index, "metaClient");
    Object config = client == null ? null : Sources.call(client, "getTableConfig");
    Object partitions = config == null ? null : Sources.call(config, "getMetadataPartitions");
    return partitions == null ? new ArrayList() : new ArrayList((Collection) partitions);
  }

  /** The parts of the name in the catalog, the table's last. */
  private static List names(scala.Option table) {
    List names = new ArrayList();
    if (table.isDefined()) {
      TableIdentifier identifier = ((CatalogTable) table.get()).identifier();
      add(identifier.catalog(), names);
      add(identifier.database(), names);
      names.add(identifier.table());
    }
    return names;
  }

  private static void add(scala.Option part, List names) {
    if (part.isDefined()) {
      names.add(part.get());
    }
  }

  private static Map options(scala.collection.immutable.Map options) {
    Map found = new LinkedHashMap();
    for (int k = 0; k < OPTIONS.length; k++) {
      scala.Option value = options.get(OPTIONS[k]);
      if (value.isDefined()) {
        found.put(OPTIONS[k], value.get());
      }
    }
    return found;
  }
}
