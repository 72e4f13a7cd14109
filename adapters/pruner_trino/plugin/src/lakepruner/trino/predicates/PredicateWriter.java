package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Constant;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.type.Type;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** Writes the predicate of a scan in the form of docs/trino-predicates.md. */
public final class PredicateWriter {
    private final ObjectNode content = JsonNodeFactory.instance.objectNode();
    private final Columns columns;

    /** @param displaced names of columns whose values are not where the planner looks for them */
    public PredicateWriter(String connector, Map<String, ColumnHandle> assignments, Set<String> displaced) {
        content.put("version", 1);
        content.put("connector", connector);
        columns = new Columns(content.putObject("columns"), assignments, displaced);
    }

    /** The whole predicate; empty when it holds for every row. */
    public Optional<ObjectNode> content(List<TupleDomain<ColumnHandle>> domains, ConnectorExpression expression) {
        boolean says = expression != null && !isTrue(expression) && !ExpressionWriter.restatesNothing(expression);
        if (domains.isEmpty() && !says) {
            return Optional.empty();
        }
        write(domains);
        content.set("expression", says ? new ExpressionWriter(columns).node(expression) : null);
        return Optional.of(content);
    }

    /** A predicate of domains alone, also one that holds for every row; empty where it cannot be written exactly. */
    public static Optional<ObjectNode> exact(String connector, List<TupleDomain<ColumnHandle>> domains) {
        boolean isExact = domains.stream()
                .flatMap(domain -> domain.getDomains().stream())
                .flatMap(columns -> columns.values().stream())
                .allMatch(DomainWriter::isExact);
        PredicateWriter writer = new PredicateWriter(connector, Map.of(), Set.of());
        writer.write(isExact ? domains : List.of());
        return isExact ? Optional.of(writer.content.putNull("expression")) : Optional.empty();
    }

    /** The name of an Iceberg table's own column; empty for a field inside one, or what is none of the table's. */
    public static Optional<String> column(ColumnHandle handle) {
        return Columns.ownName(handle);
    }

    public static Type type(ColumnHandle handle) {
        return Columns.type(handle);
    }

    private void write(List<TupleDomain<ColumnHandle>> domains) {
        ArrayNode list = content.putArray("domains");
        domains.forEach(domain -> write(list.addObject(), domain));
    }

    private void write(ObjectNode node, TupleDomain<ColumnHandle> domain) {
        node.put("none", domain.isNone());
        ArrayNode list = node.putArray("columns");
        domain.getDomains().ifPresent(found -> found.forEach((handle, values) -> {
            ObjectNode column = list.addObject();
            column.put("column", columns.id(handle));
            column.put("null_allowed", values.isNullAllowed());
            column.set("values", DomainWriter.values(values));
        }));
    }

    private static boolean isTrue(ConnectorExpression expression) {
        return expression instanceof Constant constant && Boolean.TRUE.equals(constant.getValue());
    }
}
