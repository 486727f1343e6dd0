# SPDX-License-Identifier: BSD-2-Clause
"""The peer of rdma-target in user space, for the guest: tgt, with the kernel's
iSCSI initiator, over TCP or over RDMA (iSER)."""

import glob
import os
import shutil

from programs import Failed, output, start, wait_until
from sides import Side, size_of

PROGRAMS = ('tgtd', 'tgtadm', 'iscsid', 'iscsiadm')
# By transport: tgt's name of it, the name of the initiator's, its module.
TRANSPORTS = {'TCP': ('iscsi', 'default', 'iscsi_tcp'),
              'RDMA': ('iser', 'iser', 'ib_iser')}


def missing():
    """Returns the programs that are not installed."""
    return [p for p in PROGRAMS if not shutil.which(p)]


class KernelIscsiOnTgt(Side):
    """The kernel's iSCSI initiator on tgtd. @number is that of the tgtd: 0
    for RDMA, where tgtd 1.0.85 listens on no other port than 3260."""

    def __init__(self, work, name, device, transport, number,
                 address='10.0.0.1'):
        super().__init__(work, name)
        self.driver, self.interface, self.module = TRANSPORTS[transport]
        self.device = device
        self.number = number
        self.portal = f'{address}:{3260 + number}'
        self.iqn = f'iqn.2026-11.bench:{name}'
        kind = 'iSCSI' if transport == 'TCP' else 'iSER'
        self.label = f"the kernel's {kind} on tgt"

    def up(self):
        self._up_target()
        output('modprobe', self.module)
        _start_iscsid()
        self._node('-o', 'new')
        self._node('--login')
        self.path = self._disk()
        self.size = size_of(self.path)

    def _up_target(self):
        # Each listens over TCP, also the one that is for RDMA.
        self.target = self.start('tgtd', '-f', '-C', self.number, '--iscsi',
                                 f'portal={self.portal}')
        wait_until(self.label, lambda: _succeeds(
            'tgtadm', '-C', self.number, '--mode', 'system', '--op', 'show'),
            process=self.target)
        for words in (
                ('target', 'new', '--targetname', self.iqn),
                # As rdma-target opens a block device: without the page cache.
                ('logicalunit', 'new', '--lun', '1', '--backing-store',
                 self.device, '--bsoflags', 'direct'),
                ('target', 'bind', '--initiator-address', 'ALL'),
                # tgt 1.0.85 lets nobody in over RDMA without this, too.
                ('target', 'bind', '--initiator-name', _initiator())):
            self._tgtadm(*words)

    def _tgtadm(self, mode, operation, *options):
        command = ['tgtadm', '-C', str(self.number), '--lld', self.driver,
                   '--mode', mode, '--op', operation, '--tid', '1', *options]
        output(*command)
        self.commands.append(' '.join(command))

    def _node(self, *options):
        command = ['iscsiadm', '-m', 'node', '-T', self.iqn, '-p',
                   self.portal, '-I', self.interface, *options]
        output(*command)
        self.commands.append(' '.join(command))

    def _disk(self):
        """Waits until the kernel has made the disk of this login."""
        def found():
            for name in glob.glob('/sys/class/iscsi_session/*/targetname'):
                with open(name, encoding='ascii') as f:
                    if f.read().strip() != self.iqn:
                        continue
                for disk in glob.glob(os.path.dirname(name) +
                                      '/device/target*/*/block/*'):
                    path = '/dev/' + os.path.basename(disk)
                    if _opens(path):
                        return path
            return None
        wait_until(self.label, found, process=self.target)
        return found()

    def down(self):
        try:
            if self.path:
                self._node('--logout')
        finally:
            super().down()


def _opens(path):
    """A disk has a name a moment before it can be opened."""
    try:
        return size_of(path) > 0
    except OSError:
        return False


def _initiator():
    with open('/etc/iscsi/initiatorname.iscsi', encoding='ascii') as f:
        return next(line.split('=')[1].strip() for line in f
                    if line.startswith('InitiatorName='))


def _succeeds(*args):
    try:
        output(*args)
        return True
    except Failed:
        return False


def _start_iscsid():
    """One for the whole guest; it ends with it."""
    def listens():
        with open('/proc/net/unix', encoding='ascii') as f:
            return '@ISCSIADM_ABSTRACT_NAMESPACE' in f.read()
    if not listens():
        os.makedirs('/run/lock/iscsi', exist_ok=True)
        wait_until('iscsid', listens, process=start(os.devnull, 'iscsid', '-f'))
