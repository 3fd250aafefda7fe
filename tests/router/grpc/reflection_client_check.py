"""grpcio, which knows nothing but the address, against a running router: http_clients_test runs it.

    python3 reflection_client_check.py HOST:PORT
"""

import sys
import unittest

import grpc
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVER = sys.argv.pop(1)


class ReflectionCheck(unittest.TestCase):
    def setUp(self):
        self.channel = grpc.insecure_channel(SERVER)
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)

    def tearDown(self):
        self.channel.close()

    def method(self, service, name):
        """A call that takes the fields of its request."""
        method = self.pool.FindServiceByName(service).FindMethodByName(name)
        request, answer = (message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type))
        call = self.channel.unary_unary(f"/{service}/{name}", request_serializer=request.SerializeToString,
                                        response_deserializer=answer.FromString)
        return lambda **fields: call(request(**fields), timeout=30)

    def test_services_are_listed(self):
        services = self.database.get_services()
        self.assertIn("grpc.health.v1.Health", services)
        self.assertIn("lockstep.v1.Generation", services)

    def test_health_is_found_and_called(self):
        check = self.method("grpc.health.v1.Health", "Check")
        for service in ("", "lockstep.v1.Generation"):
            answer = check(service=service)
            status = answer.DESCRIPTOR.fields_by_name["status"].enum_type.values_by_number[answer.status]
            self.assertEqual(status.name, "SERVING", service)
        with self.assertRaises(grpc.RpcError) as raised:
            check(service="nobody")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_our_own_service_is_found_and_called(self):
        models = self.method("lockstep.v1.Generation", "ListModels")().models
        self.assertEqual([model.id for model in models], ["tiny-llama"])


if __name__ == "__main__":
    unittest.main()
