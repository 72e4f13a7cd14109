package lakepruner.trino;

import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorContext;
import io.trino.spi.connector.ConnectorFactory;
import java.util.HashMap;
import java.util.Map;
import lakepruner.trino.client.PlannerClient;
import lakepruner.trino.client.Settings;
import lakepruner.trino.scans.Counters;
import lakepruner.trino.scans.Gatherings;
import lakepruner.trino.scans.Pruning;

/** One of Trino's connectors under the name {@code pruned_…}; properties {@code pruner.…} are taken from its catalog file. */
final class PrunedConnectorFactory implements ConnectorFactory {
    private final ConnectorFactory wrapped;

    PrunedConnectorFactory(ConnectorFactory wrapped) {
        this.wrapped = wrapped;
    }

    @Override
    public String getName() {
        return "pruned_" + wrapped.getName();
    }

    @Override
    public Connector create(String catalogName, Map<String, String> properties, ConnectorContext context) {
        Map<String, String> own = new HashMap<>();
        Map<String, String> others = new HashMap<>();
        properties.forEach((key, value) -> (key.startsWith(Settings.PREFIX) ? own : others).put(key, value));
        Settings settings = Settings.of(own, catalogName);
        Connector connector = wrapped.create(catalogName, others, context);
        Counters counters = Counters.registered(catalogName);
        Pruning pruning = new Pruning(
                settings,
                new PlannerClient(settings),
                new Gatherings(),
                counters,
                wrapped.getName(),
                context.getSpiVersion());
        return PrunedConnector.over(connector, pruning);
    }
}
