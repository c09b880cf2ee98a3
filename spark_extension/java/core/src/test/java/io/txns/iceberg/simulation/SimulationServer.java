package io.txns.iceberg.simulation;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Method;

/**
 * The JVM of the simulation (tests/simulation): runs the Java core of its processes, step by step.
 *
 * <p>Everything but this class, and what rewrites the others, is loaded a second time: with the
 * simulation's time, randomness and threads in the place of the machine's, and without the
 * protection that a mutation takes away ({@link Mutations#PROPERTY}).
 */
public final class SimulationServer {
  private SimulationServer() {}

  /** Serve whoever is at the other end of standard input and output, until the input ends. */
  public static void main(String[] args) throws Exception {
    OutputStream out = new FileOutputStream(FileDescriptor.out);
    System.setOut(System.err); // only lines of the protocol go there
    System.setProperty("iceberg.worker.num-threads", "2"); // not as many as the machine has
    System.setProperty("iceberg.worker.delete-num-threads", "2");
    ClassLoader simulated =
        new RewritingClassLoader(System.getProperty("java.class.path"), Mutations.running());
    Thread.currentThread().setContextClassLoader(simulated);
    Class<?> conversation = simulated.loadClass(Conversation.class.getName());
    Method hold = conversation.getDeclaredMethod("hold", InputStream.class, OutputStream.class);
    hold.setAccessible(true);
    hold.invoke(null, System.in, out);
    Runtime.getRuntime().halt(0); // nobody waits for threads of processes that were left
  }
}
