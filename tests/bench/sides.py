# SPDX-License-Identifier: BSD-2-Clause
"""The sides that are measured. Each side makes a path (a file or block
device) for fio, and removes it again.
"""

import os
import re
import subprocess

from programs import (Failed, free_port, output, say, start, stop,
                      undisturbed, unmount, wait_until)


def size_of(path):
    with open(path, 'rb') as f:
        return f.seek(0, os.SEEK_END)


def written(path):
    """For a PID file: it may exist and be empty before its program is ready."""
    return os.path.exists(path) and os.path.getsize(path) > 0


def fresh(path):
    """For a PID file: removes that of an earlier start."""
    if os.path.exists(path):
        os.remove(path)
    return path


def up(all_sides, fill):
    """@fill(path, size) writes all of a side once, because untouched memory is
    slow."""
    for side in all_sides:
        say('starting ' + side.label)
        side.up()
        fill(side.path, side.size)


def down(all_sides):
    """Also ends sides that did not start, or only in part."""
    with undisturbed():
        for side in reversed(all_sides):
            try:
                side.down()
            except (Failed, OSError) as e:
                say(f'{side.label}: {e}')


class Side:
    """@label names the side. @path exists between up() and down()."""

    label = ''

    def __init__(self, work, name):
        self.work = work
        self.name = name
        self.dir = os.path.join(work, name)
        self.log = os.path.join(work, name + '.log')
        self.processes = []
        self.commands = []
        self.path = None
        self.size = None
        os.makedirs(self.dir, exist_ok=True)

    def start(self, *args):
        process = start(self.log, *args)
        self.processes.append(process)
        self.commands.append(' '.join(os.path.basename(str(a)) if i == 0
                                      else str(a).replace(self.work, '$WORK')
                                      for i, a in enumerate(args)))
        return process

    def shown(self, path, process):
        """Waits until @process has made @path."""
        wait_until(self.label, lambda: os.path.exists(path) and
                   size_of(path) > 0, process=process)
        self.path = path
        self.size = size_of(path)

    def down(self):
        unmount(self.dir)
        for process in reversed(self.processes):
            stop(process)
        self.processes = []

    def renew(self, fill):
        """Ends and restarts its programs. The kernel's sides have none."""
        if not self.processes:
            return
        self.down()
        self.commands = []
        os.remove(self.log)
        self.up()
        fill(self.path, self.size)


class Ours(Side):
    """rdma-fuse on rdma-target."""

    def __init__(self, work, name, build, backing, transport='tcp',
                 address='127.0.0.1', options=(), target_options=()):
        super().__init__(work, name)
        self.build = build
        self.backing = backing
        self.uri = f'srp+{transport}://{address}:{free_port()}'
        self.options = options
        self.target_options = target_options
        self.label = 'rdma-fuse on rdma-target'
        self.allocations = None
        self.target_prefix = ()

    def count_allocations(self):
        """After the next up(), counts allocations in the file
        self.allocations."""
        self.allocations = os.path.join(self.work, 'allocations')
        with open(self.allocations, 'wb') as f:
            f.write(bytes(8))
        self.target_prefix = (
            'env', f'ALLOC_COUNT={self.allocations}',
            f'LD_PRELOAD={os.path.abspath(self.build)}/tests/t-alloc.so')

    def up(self):
        self.up_target()
        pid = fresh(os.path.join(self.work, self.name + '.fuse.pid'))
        self.client = self.start(
            f'{self.build}/fuse/rdma-fuse', '-f', '-P', pid, *self.options,
            self.uri + '/disk', self.dir)
        wait_until(self.label, lambda: written(pid),
                   process=self.client)
        self.shown(os.path.join(self.dir, 'disk'), self.client)

    def up_target(self):
        pid = fresh(os.path.join(self.work, self.name + '.target.pid'))
        self.target = self.start(
            *self.target_prefix, f'{self.build}/target/rdma-target', '-P',
            pid, '--state-dir', 'none', '--listen', self.uri,
            *self.target_options, '--backing',
            f'{self.backing},name=disk')
        wait_until(self.label, lambda: written(pid),
                   process=self.target)


class Nbd(Side):
    """nbdfuse on nbdkit, over TCP."""

    label = 'nbdfuse on nbdkit'

    def __init__(self, work, name, *plugin):
        super().__init__(work, name)
        self.plugin = plugin

    def up(self):
        port = free_port()
        pid = fresh(os.path.join(self.work, self.name + '.pid'))
        server = self.start('nbdkit', '-f', '-P', pid, '-i', '127.0.0.1',
                            '-p', port, *self.plugin)
        wait_until(self.label, lambda: written(pid), process=server)
        client = self.start('nbdfuse', os.path.join(self.dir, 'disk'),
                            f'nbd://127.0.0.1:{port}')
        self.shown(os.path.join(self.dir, 'disk'), client)


class QemuExport(Side):
    """The FUSE export of qemu-storage-daemon: local, no network at all."""

    label = "qemu-storage-daemon's local FUSE export"

    def __init__(self, work, name, file):
        super().__init__(work, name)
        self.file = file

    def up(self):
        path = os.path.join(self.dir, 'disk')
        open(path, 'wb').close()
        daemon = self.start(
            'qemu-storage-daemon', '--blockdev',
            f'driver=file,node-name=f,filename={self.file}', '--blockdev',
            'driver=raw,node-name=d,file=f', '--export',
            f'type=fuse,id=e,node-name=d,mountpoint={path},writable=on')
        self.shown(path, daemon)

    def down(self):
        unmount(os.path.join(self.dir, 'disk'))
        super().down()


class Bare(Side):
    """The backing itself, without anything in between."""

    label = 'bare backing'

    def __init__(self, work, name, path):
        super().__init__(work, name)
        self.path = path

    def up(self):
        self.size = size_of(self.path)


# ---- sides of the kernel, in the guest ----


class KernelSrp(Side):
    """The kernel's ib_srp; @login prints the disk that it makes."""

    def __init__(self, work, name, label, login):
        super().__init__(work, name)
        self.label = label
        self.login = login

    def up(self):
        self.path = guest_function(self.login).strip().splitlines()[-1]
        self.size = size_of(self.path)
        self.commands.append(self.login)

    def down(self):
        if self.path:
            guest_function(f'vm_kernel_logout {self.path}')


class KernelSrpOnOurs(Ours):
    """The kernel's ib_srp on rdma-target."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.label = "the kernel's ib_srp on rdma-target"

    def up(self):
        self.up_target()
        dest = self.uri.split('//')[1]
        wait_until(self.label, self.ids, process=self.target)
        ids = self.ids()
        login = f'vm_kernel_login {ids[1]} {ids[2]} {dest}'
        self.path = guest_function(login).strip().splitlines()[-1]
        self.size = size_of(self.path)
        self.commands.append(login)

    def ids(self):
        """Returns the login line that its target prints; waits for the line."""
        with open(self.log, encoding='utf-8') as log:
            return re.search(r'id_ext=(\w+),ioc_guid=(\w+),dest=', log.read())

    def down(self):
        if self.path:
            guest_function(f'vm_kernel_logout {self.path}')
        super().down()


class NvmeRdma(Side):
    """The kernel's nvme-rdma on its nvmet-rdma."""

    label = "the kernel's nvme-rdma on nvmet-rdma"
    NQN = 'bench'

    def __init__(self, work, name, device, address='10.0.0.1', port=4420):
        super().__init__(work, name)
        self.device = device
        self.address = address
        self.port = port

    def up(self):
        top = '/sys/kernel/config/nvmet'
        sub = f'{top}/subsystems/{self.NQN}'
        listen = f'{top}/ports/1'
        output('modprobe', '-a', 'nvmet', 'nvmet-rdma', 'nvme-rdma')
        os.makedirs(f'{sub}/namespaces/1')
        os.makedirs(listen, exist_ok=True)
        for path, value in (
                (f'{sub}/attr_allow_any_host', '1'),
                (f'{sub}/namespaces/1/device_path', self.device),
                (f'{sub}/namespaces/1/enable', '1'),
                (f'{listen}/addr_trtype', 'rdma'),
                (f'{listen}/addr_adrfam', 'ipv4'),
                (f'{listen}/addr_traddr', self.address),
                (f'{listen}/addr_trsvcid', str(self.port))):
            with open(path, 'w', encoding='ascii') as f:
                f.write(value)
        os.symlink(sub, f'{listen}/subsystems/{self.NQN}')
        with open('/dev/nvme-fabrics', 'r+b', buffering=0) as f:
            f.write(f'transport=rdma,traddr={self.address},'
                    f'trsvcid={self.port},nqn={self.NQN}'.encode())
        self.path = '/dev/nvme0n1'
        wait_until(self.label, lambda: os.path.exists(self.path) and
                   size_of(self.path) > 0)
        self.size = size_of(self.path)

    def down(self):
        control = '/sys/class/nvme/nvme0/delete_controller'
        if os.path.exists(control):
            with open(control, 'w', encoding='ascii') as f:
                f.write('1')


def guest_function(call):
    """Runs a function of tests/vm/lib.sh."""
    done = subprocess.run(['bash', '-ec', f'. "$VM_LIB"; {call}'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        raise Failed(f'{call}: {done.stderr.strip()}')
    return done.stdout
