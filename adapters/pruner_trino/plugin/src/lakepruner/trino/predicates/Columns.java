package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.type.Type;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import lakepruner.trino.reflection.Reflection;

/** The columns that a predicate names, each with an id; those of Hive's and Hudi's connector are of one class. */
final class Columns {
    private final ObjectNode node;
    private final Map<String, ColumnHandle> assignments;
    private final Set<String> displaced;
    private final Map<ColumnHandle, String> ids = new HashMap<>();

    Columns(ObjectNode node, Map<String, ColumnHandle> assignments, Set<String> displaced) {
        this.node = node;
        this.assignments = assignments;
        this.displaced = displaced;
    }

    String id(ColumnHandle handle) {
        return ids.computeIfAbsent(handle, this::added);
    }

    /** The id of a variable's column; null for a variable that is no column of the scan. */
    String id(String variable) {
        ColumnHandle handle = assignments.get(variable);
        return handle == null ? null : id(handle);
    }

    private String added(ColumnHandle handle) {
        String id = Integer.toString(ids.size());
        ObjectNode column = node.putObject(id);
        ArrayNode path = column.putArray("path");
        String name = (String) Reflection.get(handle, "getBaseColumnName");
        path.add(name);
        Reflection.find(handle, "getHiveColumnProjectionInfo")
                .ifPresent(fields -> ((List<?>) Reflection.get(fields, "getDereferenceNames"))
                        .forEach(field -> path.add((String) field)));
        column.put("type", ((Type) Reflection.get(handle, "getType")).getDisplayName());
        column.put("kind", displaced.contains(name) ? "displaced" : kind(handle));
        return id;
    }

    private static String kind(ColumnHandle handle) {
        if ((boolean) Reflection.get(handle, "isHidden")) {
            return "hidden";
        }
        return (boolean) Reflection.get(handle, "isPartitionKey") ? "partition" : "regular";
    }
}
