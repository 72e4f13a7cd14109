package pruner.spark.iceberg;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import pruner.spark.indexes.Indexes;
import pruner.spark.indexes.Prunings;
import pruner.spark.indexes.SliceKeys;
import pruner.spark.scans.Pruning;
import pruner.spark.statements.Sources;

/** Relations over Iceberg's tables. Their scans come later, so a relation only names its pruning (see IcebergScans). */
public final class IcebergTables extends Indexes {
  private static final String TABLE = "org.apache.iceberg.spark.source.SparkTable";
  private static final String NO_COLUMNS = "{\"type\":\"struct\",\"fields\":[]}";
  private static final String[] INCREMENTAL = {
    "start-snapshot-id", "end-snapshot-id", "start-timestamp", "end-timestamp", "stream-from-timestamp"
  };

  /** Whether it is a data table: metadata tables list files of another kind. */
  public static boolean isOne(Table table) {
    if (!table.getClass().getName().equals(TABLE)) {
      return false;
    }
    Object own = Sources.call(table, "table");
    for (Class each = own == null ? null : own.getClass(); each != null; each = each.getSuperclass()) {
      if (each.getName().equals("org.apache.iceberg.BaseMetadataTable")) {
        return false;
      }
    }
    return own != null;
  }

  /** Describes a relation as Description does for other formats. */
  public static void describe(DataSourceV2Relation relation, Map found) {
    Object table = Sources.call(relation.table(), "table");
    List roots = new ArrayList();
    roots.add(SliceKeys.place(new Path((String) Sources.call(table, "location"))));
    found.put("index", TABLE);
    found.put("roots", roots);
    found.put("names", names(relation));
    found.put("query_type", isIncremental(relation.options()) ? "INCREMENTAL" : "SNAPSHOT");
    found.put("data_schema", relation.schema().json());
    found.put("partition_schema", NO_COLUMNS);
  }

  private static boolean isIncremental(CaseInsensitiveStringMap options) {
    for (int k = 0; k < INCREMENTAL.length; k++) {
      if (options.containsKey(INCREMENTAL[k])) {
        return true;
      }
    }
    return false;
  }

  private static List names(DataSourceV2Relation relation) {
    List names = new ArrayList();
    if (relation.catalog().isDefined() && relation.identifier().isDefined()) {
      names.add(((CatalogPlugin) relation.catalog().get()).name());
      Identifier identifier = (Identifier) relation.identifier().get();
      names.addAll(Arrays.asList(identifier.namespace()));
      names.add(identifier.name());
    }
    return names;
  }

  /** The same relation with further options. */
  public static LogicalPlan with(DataSourceV2Relation relation, Map more) {
    Map options = new HashMap(relation.options().asCaseSensitiveMap());
    options.putAll(more);
    Object[] parts = new Object[relation.productArity()];
    for (int k = 0; k < parts.length; k++) {
      Object part = relation.productElement(k);
      parts[k] = part instanceof CaseInsensitiveStringMap ? new CaseInsensitiveStringMap(options) : part;
    }
    return (LogicalPlan) relation.makeCopy(parts);
  }

  public void mark(SparkSession session, Pruning pruning, Map options) {
    options.put(Prunings.OPTION, IcebergScans.of(session).remember(pruning));
  }
}
