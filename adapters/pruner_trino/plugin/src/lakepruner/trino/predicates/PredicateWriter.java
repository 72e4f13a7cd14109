package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Constant;
import io.trino.spi.predicate.TupleDomain;
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
        ArrayNode list = content.putArray("domains");
        domains.forEach(domain -> write(list.addObject(), domain));
        content.set("expression", says ? new ExpressionWriter(columns).node(expression) : null);
        return Optional.of(content);
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
