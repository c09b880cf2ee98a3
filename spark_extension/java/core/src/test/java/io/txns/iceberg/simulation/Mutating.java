package io.txns.iceberg.simulation;

import static net.bytebuddy.jar.asm.Opcodes.ACC_ABSTRACT;
import static net.bytebuddy.jar.asm.Opcodes.ACC_FINAL;
import static net.bytebuddy.jar.asm.Opcodes.ACC_NATIVE;
import static net.bytebuddy.jar.asm.Opcodes.ACC_PRIVATE;
import static net.bytebuddy.jar.asm.Opcodes.ACC_PROTECTED;
import static net.bytebuddy.jar.asm.Opcodes.ACC_PUBLIC;
import static net.bytebuddy.jar.asm.Opcodes.ACC_STATIC;
import static net.bytebuddy.jar.asm.Opcodes.ACC_SYNCHRONIZED;
import static net.bytebuddy.jar.asm.Opcodes.ACC_SYNTHETIC;
import static net.bytebuddy.jar.asm.Opcodes.ALOAD;
import static net.bytebuddy.jar.asm.Opcodes.ASM9;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKEINTERFACE;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKESPECIAL;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKESTATIC;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKEVIRTUAL;
import static net.bytebuddy.jar.asm.Opcodes.ILOAD;
import static net.bytebuddy.jar.asm.Opcodes.INVOKEINTERFACE;
import static net.bytebuddy.jar.asm.Opcodes.INVOKESPECIAL;
import static net.bytebuddy.jar.asm.Opcodes.INVOKESTATIC;
import static net.bytebuddy.jar.asm.Opcodes.IRETURN;

import io.txns.iceberg.simulation.Mutation.Target;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Type;

/**
 * Puts the bodies of a mutation in the place of what a class does: a method keeps what it has done
 * under another name, and asks {@link Mutated}; a call becomes one of that.
 */
final class Mutating extends ClassVisitor {
  private static final int KEPT_OF_ORIGINAL = ACC_STATIC | ACC_SYNCHRONIZED;
  private static final int VISIBLE = ACC_PUBLIC | ACC_PROTECTED | ACC_PRIVATE;
  private static final Handle LINK =
      new Handle(
          H_INVOKESTATIC,
          Type.getInternalName(Mutated.class),
          "link",
          "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;"
              + "Ljava/lang/invoke/MethodType;Ljava/lang/invoke/MethodHandle;"
              + "Ljava/lang/String;)Ljava/lang/invoke/CallSite;",
          false);

  private final List<Target> targets;
  private final Set<Target> missed;
  private String className;

  private Mutating(ClassVisitor next, List<Target> targets) {
    super(ASM9, next);
    this.targets = targets;
    this.missed = new HashSet<>(targets);
  }

  /**
   * A class file, mutated.
   *
   * @param targets all that a mutation has
   * @throws IllegalStateException where a target of the class is not there: nothing would be taken
   *     away
   */
  static byte[] of(String className, byte[] code, List<Target> targets) {
    List<Target> here =
        targets.stream().filter(target -> target.inClass().equals(className)).toList();
    if (here.isEmpty()) {
      return code;
    }
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    Mutating mutating = new Mutating(writer, here);
    reader.accept(mutating, 0);
    if (!mutating.missed.isEmpty()) {
      throw new IllegalStateException(
          "gone: " + mutating.missed.stream().map(Target::key).sorted().toList());
    }
    return writer.toByteArray();
  }

  @Override
  public void visit(
      int version, int access, String name, String signature, String parent, String[] interfaces) {
    className = name;
    super.visit(version, access, name, signature, parent, interfaces);
  }

  @Override
  public MethodVisitor visitMethod(
      int access, String name, String descriptor, String signature, String[] exceptions) {
    String method = Mutation.named(name, descriptor);
    List<Target> here = targets.stream().filter(one -> one.method().equals(method)).toList();
    int kept = access;
    String keptName = name;
    for (Target target : here) {
      if (target.isMethod()) {
        missed.remove(target);
        refuseWithoutCode(target, access, name);
        keptName = name + "$original";
        kept = (access & KEPT_OF_ORIGINAL) | ACC_PRIVATE | ACC_SYNTHETIC;
        asking(target, access, name, descriptor, signature, exceptions);
      }
    }
    MethodVisitor next = super.visitMethod(kept, keptName, descriptor, signature, exceptions);
    List<Target> calls = here.stream().filter(target -> !target.isMethod()).toList();
    return calls.isEmpty() ? next : new Calls(next, calls);
  }

  private static void refuseWithoutCode(Target target, int access, String name) {
    if ((access & (ACC_ABSTRACT | ACC_NATIVE)) != 0 || name.startsWith("<")) {
      throw new IllegalStateException("it has no body that could be another one: " + target.key());
    }
  }

  /** The method under its own name, which hands its arguments on. */
  private void asking(
      Target target,
      int access,
      String name,
      String descriptor,
      String signature,
      String[] exceptions) {
    boolean isStatic = (access & ACC_STATIC) != 0;
    int asked = access & (VISIBLE | ACC_STATIC | ACC_FINAL);
    MethodVisitor code = super.visitMethod(asked, name, descriptor, signature, exceptions);
    code.visitCode();
    loadArguments(code, isStatic, descriptor);
    Handle original =
        new Handle(
            isStatic ? H_INVOKESTATIC : H_INVOKESPECIAL,
            className,
            name + "$original",
            descriptor,
            false);
    String type = isStatic ? descriptor : withReceiver(className, descriptor);
    code.visitInvokeDynamicInsn(name, type, LINK, original, target.key());
    code.visitInsn(Type.getReturnType(descriptor).getOpcode(IRETURN));
    code.visitMaxs(0, 0);
    code.visitEnd();
  }

  /** Put what a method was given on the stack, its object first. */
  static void loadArguments(MethodVisitor code, boolean isStatic, String descriptor) {
    int local = 0;
    if (!isStatic) {
      code.visitVarInsn(ALOAD, local++);
    }
    for (Type argument : Type.getArgumentTypes(descriptor)) {
      code.visitVarInsn(argument.getOpcode(ILOAD), local);
      local += argument.getSize();
    }
  }

  private static String withReceiver(String owner, String descriptor) {
    return "(" + Type.getObjectType(owner).getDescriptor() + descriptor.substring(1);
  }

  private final class Calls extends MethodVisitor {
    private final List<Target> calls;

    private Calls(MethodVisitor next, List<Target> calls) {
      super(ASM9, next);
      this.calls = calls;
    }

    @Override
    public void visitMethodInsn(
        int opcode, String owner, String name, String descriptor, boolean isInterface) {
      String called = Mutation.named(owner, name, descriptor);
      for (Target target : calls) {
        if (opcode != INVOKESPECIAL && target.called().equals(called)) {
          missed.remove(target);
          boolean isStatic = opcode == INVOKESTATIC;
          int tag = opcode == INVOKEINTERFACE ? H_INVOKEINTERFACE : H_INVOKEVIRTUAL;
          Handle original =
              new Handle(isStatic ? H_INVOKESTATIC : tag, owner, name, descriptor, isInterface);
          String type = isStatic ? descriptor : withReceiver(owner, descriptor);
          super.visitInvokeDynamicInsn(name, type, LINK, original, target.key());
          return;
        }
      }
      super.visitMethodInsn(opcode, owner, name, descriptor, isInterface);
    }
  }
}
