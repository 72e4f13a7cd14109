package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.type.Type;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import lakepruner.trino.reflection.Reflection;

/** The columns that a predicate names, each with an id; those of Hive's and Hudi's connector are of one class, Iceberg's of another. */
final class Columns {
    /** Iceberg's ids of what is no column of a table, such as a file's path, are the largest; Trino's own are negative. */
    private static final int LARGEST_ID = Integer.MAX_VALUE - 10_000;

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
        List<String> names = Reflection.has(handle, "getBaseColumnIdentity") ? namesById(handle) : names(handle);
        ArrayNode path = column.putArray("path");
        names.forEach(path::add);
        column.put("type", type(handle).getDisplayName());
        column.put("kind", displaced.contains(names.getFirst()) ? "displaced" : kind(handle));
        return id;
    }

    static Type type(ColumnHandle handle) {
        return (Type) Reflection.get(handle, "getType");
    }

    static Optional<String> ownName(ColumnHandle handle) {
        boolean isOwn = Reflection.has(handle, "getBaseColumnIdentity")
                && kind(handle).equals("identified")
                && ((List<?>) Reflection.get(handle, "getPath")).isEmpty();
        return isOwn ? Optional.of(namesById(handle).getFirst()) : Optional.empty();
    }

    private static List<String> names(ColumnHandle handle) {
        List<String> found = new ArrayList<>();
        found.add((String) Reflection.get(handle, "getBaseColumnName"));
        Reflection.find(handle, "getHiveColumnProjectionInfo")
                .ifPresent(fields -> ((List<?>) Reflection.get(fields, "getDereferenceNames"))
                        .forEach(field -> found.add((String) field)));
        return found;
    }

    /** The names along the ids that lead to a field of an Iceberg table, as the schema of the scan has them. */
    private static List<String> namesById(ColumnHandle handle) {
        Object at = Reflection.get(handle, "getBaseColumnIdentity");
        List<String> found = new ArrayList<>();
        found.add((String) Reflection.get(at, "getName"));
        for (Object id : (List<?>) Reflection.get(handle, "getPath")) {
            at = ((List<?>) Reflection.get(at, "getChildren"))
                    .stream()
                            .filter(child -> Reflection.get(child, "getId").equals(id))
                            .findFirst()
                            .orElseThrow(() -> new IllegalStateException("there is no field " + id + " in " + handle));
            found.add((String) Reflection.get(at, "getName"));
        }
        return found;
    }

    private static String kind(ColumnHandle handle) {
        if (Reflection.has(handle, "getBaseColumnIdentity")) {
            int id = (int) Reflection.get(Reflection.get(handle, "getBaseColumnIdentity"), "getId");
            return id < 0 || id > LARGEST_ID ? "hidden" : "identified";
        }
        if ((boolean) Reflection.get(handle, "isHidden")) {
            return "hidden";
        }
        return (boolean) Reflection.get(handle, "isPartitionKey") ? "partition" : "regular";
    }
}
