package lakepruner.trino;

import io.trino.spi.Plugin;
import io.trino.spi.connector.ConnectorFactory;
import java.util.ArrayList;
import java.util.List;

/**
 * Offers {@code pruned_hive}, {@code pruned_hudi} and {@code pruned_iceberg} for those of Trino's own connectors that lie in the same plugin folder.
 *
 * <p>It lives in their class loader, so it takes exactly the connector that the server has, and is built without any of them.
 */
public final class PrunedPlugin implements Plugin {
    private static final List<String> WRAPPED = List.of(
            "io.trino.plugin.hive.HivePlugin",
            "io.trino.plugin.hudi.HudiPlugin",
            "io.trino.plugin.iceberg.IcebergPlugin");

    @Override
    public Iterable<ConnectorFactory> getConnectorFactories() {
        List<ConnectorFactory> factories = new ArrayList<>();
        for (String name : Services.plugins(getClass().getClassLoader())) {
            if (WRAPPED.contains(name)) {
                for (ConnectorFactory factory : plugin(name).getConnectorFactories()) {
                    factories.add(new PrunedConnectorFactory(factory));
                }
            }
        }
        return factories;
    }

    private static Plugin plugin(String name) {
        try {
            Class<?> plugin = Class.forName(name, true, PrunedPlugin.class.getClassLoader());
            return (Plugin) plugin.getConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError error) {
            throw new IllegalStateException("cannot use " + name + " from this folder", error);
        }
    }
}
