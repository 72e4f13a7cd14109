package pruner.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.Iterator;

/** One listing on its way to a scan: the planner is told the predicate and says what to drop, once. */
public final class Scan {
  private final String table;
  private final long number;
  private final SparkSession reader;
  private final FileIndex index;
  private final SliceKeys keys;
  private final Expression predicate;
  private $SEQ$ listing;
  private boolean closed;
  private int total;
  private int unknown;
  private int dropped;

  Scan(
      String table,
      long number,
      SparkSession reader,
      FileIndex index,
      SliceKeys keys,
      Expression predicate) {
    this.table = table;
    this.number = number;
    this.reader = reader;
    this.index = index;
    this.keys = keys;
    this.predicate = predicate;
  }

  /** The relation's name with the planner and the scan's number. */
  String head() {
    return table + "\t" + number + "\t";
  }

  public FileIndex index() {
    return index;
  }

  /** See Asked. */
  String asked() throws IOException {
    return Asked.of(reader, predicate, ((Listed) index).pinned());
  }

  /** All filters of the scan as one expression, or null. */
  public Expression predicate() {
    return predicate;
  }

  /**
   * Leave out the files of the slices whose bit is set in `drop` (bit k of byte k / 8 is ordinal k of
   * `slices`). A file that is not among `slices`, whole, stays. Returns how many files the listing had, how
   * many of them were unknown and how many went. Waits for the listing.
   */
  public synchronized String drop(Slices slices, byte[] drop) throws InterruptedException {
    while (listing == null && !closed) {
      wait();
    }
    if (closed) {
      return "closed";
    }
    total = 0;
    unknown = 0;
    dropped = 0;
    List pruned = new ArrayList();
    Iterator partitions = listing.iterator();
    while (partitions.hasNext()) {
      PartitionDirectory partition = prune((PartitionDirectory) partitions.next(), slices, drop);
      if (partition != null) {
        pruned.add(partition);
      }
    }
    if (dropped > 0) {
      listing = PythonUtils.toSeq(pruned);
    }
    return total + " " + unknown + " " + dropped;
  }

  private PartitionDirectory prune(PartitionDirectory partition, Slices slices, byte[] drop) {
    List kept = new ArrayList();
    int before = dropped;
    Iterator files = partition.files().iterator();
    while (files.hasNext()) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
      total++;
      int ordinal = slices.ordinal(keys.of(partition, file));
      if (ordinal < 0) {
        unknown++;
      }
      if (ordinal >= 0 && (drop[ordinal >> 3] & (1 << (ordinal & 7))) != 0) {
        dropped++;
      } else {
        kept.add(file);
      }
    }
    if (dropped == before) {
      return partition;
    }
    return kept.isEmpty() ? null : new PartitionDirectory(partition.values(), PythonUtils.toSeq(kept));
  }

  /** Now the files are known; null where they could not be listed. */
  synchronized void listed($SEQ$ files) {
    listing = files;
    closed = closed || files == null;
    notifyAll();
  }

  /** What is left of the listing; what the planner says from now on comes too late. */
  synchronized $SEQ$ close() {
    closed = true;
    return listing;
  }

  synchronized void abandon() {
    closed = true;
  }
}
